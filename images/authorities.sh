# shellcheck shell=bash
# The authorities that servers are signed by, for images whose programs speak to servers of others. Sourced by their `rootfs`,
# after guests/packages.sh.

# authorities TO    puts them where programs look for them, under TO
authorities() {
    local to=$1 cache all tree
    cache=${CORACLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coracle}/images
    # They change less often than the programs.
    all=$cache/authorities-$(sha256sum <"${BASH_SOURCE[0]}" | cut -c1-12).tar
    tree=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder's name now, not at the end
    trap "rm -rf '$tree'" EXIT
    if [[ ! -f $all ]]; then
        unpack "$tree/all.tar" amd64 ca-certificates 2>"$tree/log" || { tail -n 20 "$tree/log" >&2 && exit 1; }
        mkdir -p "$cache"
        mv "$tree/all.tar" "$all"
    fi
    mkdir "$tree/debian"
    tar -C "$tree/debian" -xf "$all" --wildcards './usr/share/ca-certificates/*' './usr/share/doc/ca-certificates/copyright'
    mkdir -p "$to/etc/ssl/certs"
    local LC_ALL=C
    cat "$tree"/debian/usr/share/ca-certificates/mozilla/*.crt >"$to/etc/ssl/certs/ca-certificates.crt"
    install -D -m 644 -t "$to/usr/share/doc/ca-certificates" "$tree/debian/usr/share/doc/ca-certificates/copyright"
}

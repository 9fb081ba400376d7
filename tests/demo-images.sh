# shellcheck shell=bash
# To be sourced by demo.sh, whose folder, disk and words it uses: the second part, about images.

# Two registries, $first and $second, have the disk; the first has an ISO, too.
build_images() {
    iso=$("$here/images/guests/memtest/build")
    registry_start "$work/first"
    first_pid=$registry_pid first=127.0.0.1:$registry_port
    registry_start "$work/second"
    second=127.0.0.1:$registry_port
    echo "two empty registries: $first and $second; the ISO: $(mib "$(stat -c %s "$iso")") of memtest86+"
    ln -s "$iso" memtest.iso
    show coracle build -t "docker://$first/debian:12" "$url"
    show coracle build -t memtest:6 memtest.iso
    show coracle push memtest:6 "docker://$first/memtest:6"
    echo "and from registry to registry, with nothing on this host's disk:"
    show coracle copy "docker://$first/debian:12" "docker://$second/debian:12"
}

# The first registry is switched off when a third of the image is here.
pull_from_two() {
    nginx_stop
    nginx_registry=$first nginx_start "$work/www" "$work/slow" 20m
    local slow=127.0.0.1:$nginx_port size
    mkdir -p "$HOME/.config/coracle"
    tee "$HOME/.config/coracle/registries.toml" <<TOML
[host."disks.example"]
fallback = false
mirror = [
    { host = "$slow", plain-http = true },   # the first one, 20 MB/s a connection
    { host = "$second", plain-http = true },
]
TOML
    export CORACLE_STORE=$work/elsewhere
    echo "\$ CORACLE_STORE=elsewhere coracle pull --json docker://disks.example/debian:12 >pull.json"
    coracle pull --json docker://disks.example/debian:12 >pull.json 2>pull.log &
    local pid=$!
    size=$(held "$work/first/data")
    until (($(held "$CORACLE_STORE") > size / 3)); do
        if ! kill -0 "$pid" 2>/dev/null; then break; fi
        sleep 0.02
    done
    registry_stop "$first_pid"
    nginx_stop
    echo "(the registry and the line to it are cut: $(held "$CORACLE_STORE") of $size MiB are here)"
    local status=0
    wait "$pid" || status=$?
    cat pull.log
    if ((status)); then exit "$status"; fi
    jq -r '"\(.registries.switches) switches, \(.registries.received) bytes received of \(.bytes): \(.digest)"' pull.json
    show coracle verify store:disks.example/debian:12
    show coracle images
    unset CORACLE_STORE
}

# Build and push in one go, against what people do: a Containerfile, a build, a push. Both compress with gzip.
compare_builds() {
    echo "\$ coracle build --layer gzip -t docker://$second/ours:1 disk.qcow2"
    watch "$HOME/.local"
    measure coracle build --quiet --layer gzip -t "docker://$second/ours:1" disk.qcow2
    unwatch
    local our_time=$took our_rss=$rss our_extra=$peak

    mkdir -p context "$HOME/.config/containers"
    echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$HOME/.config/containers/policy.json"
    ln disk.qcow2 context/disk.qcow2
    printf 'FROM scratch\nADD --chown=107:107 disk.qcow2 /disk/\n' | tee context/Containerfile
    echo "\$ buildah bud -t debian:hand context && buildah push debian:hand docker://$second/theirs:1"
    watch "$work/containers"
    measure bash -euo pipefail -c '
        buildah --root "$2/containers" --runroot "$2/run" bud -q -t debian:hand context >/dev/null
        buildah --root "$2/containers" --runroot "$2/run" push -q --tls-verify=false debian:hand "docker://$1/theirs:1"
        ' by-hand "$second" "$work"
    unwatch

    printf '\n%-22s %14s %14s\n' '' coracle buildah
    printf '%-22s %14s %14s\n' seconds "$our_time" "$took"
    printf '%-22s %14s %14s\n' 'extra disk' "$our_extra MiB" "$peak MiB"
    printf '%-22s %14s %14s\n' 'largest memory' "$((our_rss / 1024)) MiB" "$((rss / 1024)) MiB"
    echo
    echo "And is what it built right?"
    show coracle verify "docker://$second/theirs:1" || echo "(exit code $?)"
}

# The innermost first.
unmount_below() {
    local at
    awk -v below="$1/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r at; do
        umount "$at" || true
    done
}

# buildah leaves mounts and, for who is not root, files of other users.
buildah_forget() {
    if [[ ! -d $work/containers ]]; then return; fi
    buildah --root "$work/containers" --runroot "$work/run" rm --all >/dev/null 2>&1 || true
    if ((EUID == 0)); then
        unmount_below "$work/containers"
    else
        buildah unshare rm -rf "$work/containers" "$work/run"
    fi
}

# The most that a folder grows by, in MiB, until `unwatch`, which leaves it in `peak`.
watch() {
    (
        most=0
        trap 'echo "$most" >"$work/peak"; exit' TERM
        before=$(held "$1")
        while sleep 0.1; do
            more=$(($(held "$1") - before))
            if ((more > most)); then most=$more; fi
        done
    ) &
    watching=$!
}

# MiB in a folder that may not be there, and whose files come and go.
held() {
    local held
    held=$(du -sm "$1" 2>/dev/null | cut -f1) || true
    echo "${held:-0}"
}

unwatch() {
    sleep 0.2
    kill -TERM "$watching"
    wait "$watching" || true
    peak=$(<"$work/peak")
}

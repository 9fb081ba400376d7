# shellcheck shell=bash
# To be sourced by demo.sh, whose folder and words it uses: the first part, about disks.

# Makes the disk and its packing, and puts that where people find it.
publish_disk() {
    local packed
    disk=$(images/guests/debian/build demo)
    packed=${disk%.raw}.qcow2.xz
    if [[ ! -f $packed ]]; then
        echo "packing it as disk.qcow2.xz"
        qemu-img convert -O qcow2 "$disk" "$work/disk.qcow2"
        xz -T0 -3 -c "$work/disk.qcow2" >"$work/packed"
        rm "$work/disk.qcow2"
        mv "$work/packed" "$packed"
    fi
    ln -s "$packed" "$work/www/disk.qcow2.xz"
    nginx_start "$work/www" "$work/nginx"
    url=http://127.0.0.1:$nginx_port/disk.qcow2.xz
    echo "$(mib "$(stat -Lc %s "$packed")") at $url"
}

convert_disk() {
    echo "\$ coracle convert --json $url disk.img >report.json"
    measure coracle convert --json "$url" disk.img >report.json
    our_time=$took our_rss=$rss our_sent=$(nginx_sent nginx) our_extra=$(jq .spool_peak report.json)
    jq -r '"\(.flow): \(.bytes_read) bytes read, \(.bytes_written) written, \(.spool_peak) spooled"' report.json
    say "What it is"
    show coracle inspect disk.img
    say "Is it the same disk?"
    show qemu-img compare -f raw -F raw disk.img "$disk"
}

# Leaves disk.qcow2, too.
convert_by_hand() {
    local hand_sent hand_extra
    printf '$ %s\n' "curl -o disk.qcow2.xz $url" "xz -T0 -d disk.qcow2.xz" \
        "qemu-img convert -W -m 8 -O raw disk.qcow2 hand.img"
    measure bash -euo pipefail -c '
        curl -fsS -o disk.qcow2.xz "$1"
        xz -T0 -dk disk.qcow2.xz
        qemu-img convert -W -m 8 -O raw disk.qcow2 hand.img
        sync hand.img' by-hand "$url"
    hand_sent=$(nginx_sent nginx)
    qemu-img compare -q -f raw -F raw hand.img disk.img
    hand_extra=$(($(stat -c %s disk.qcow2.xz) + $(stat -c %s disk.qcow2)))

    printf '\n%-22s %14s %14s\n' '' coracle 'by hand'
    printf '%-22s %14s %14s\n' seconds "$our_time" "$took"
    printf '%-22s %14s %14s\n' 'over the network' "$(mib "$our_sent")" "$(mib "$hand_sent")"
    printf '%-22s %14s %14s\n' 'extra disk' "$(mib "$our_extra")" "$(mib "$hand_extra")"
    printf '%-22s %14s %14s\n' 'largest memory' "$((our_rss / 1024)) MiB" "$((rss / 1024)) MiB"
    printf '%-22s %14s %14s\n' 'disk.img holds' "$(du -m disk.img | cut -f1) MiB" "$(du -m hand.img | cut -f1) MiB"
    rm disk.img hand.img disk.qcow2.xz
}

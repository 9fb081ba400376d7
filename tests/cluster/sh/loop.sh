# shellcheck shell=bash
# Loop devices. They belong to the whole host, so only those are touched that stand on a file of this cluster, and
# those that a kubelet puts on top of such a device when a pod gets it as a block volume.
#
#   loop_ours      their names, the upper ones first
#   loops_remove

loop_ours() {
    local name device inode file own=() ours=() upper=()
    mapfile -t own < <(loop_list | while IFS=$'\t' read -r name device inode file; do
        if [[ $device == "$(stat -c '%Hd:%Ld' "$states")" ]] && is_our_file "$file" "$inode"; then echo "$name"; fi
    done)
    for name in "${own[@]}"; do ours+=("$(stat -c %i "$name")"); done
    # The kubelet's stand on the device's own file in /dev, under a name that has gone with the node.
    mapfile -t upper < <(loop_list | while IFS=$'\t' read -r name device inode file; do
        if [[ $device == "$(stat -c '%Hd:%Ld' /dev)" && " ${ours[*]} " == *" $inode "* ]]; then echo "$name"; fi
    done)
    printf '%s\n' "${upper[@]}" "${own[@]}" | grep . || true
}

# By its name, or, where that went with a node, by its number.
is_our_file() {
    [[ $1 == "$state"/* ]] || [[ $(find "$state" -xdev -inum "$2" -print -quit 2>/dev/null) ]]
}

loop_list() {
    losetup --list --json --output NAME,BACK-MAJ:MIN,BACK-INO,BACK-FILE |
        jq -r '.loopdevices[]? | [.name, (."back-maj:min" | gsub(" "; "")), (."back-ino" | tostring), ."back-file" // ""] | @tsv'
}

loops_remove() {
    local name
    for name in $(loop_ours); do losetup --detach "$name"; done
}

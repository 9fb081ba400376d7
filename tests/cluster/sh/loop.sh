# shellcheck shell=bash
# Loop devices. They belong to the whole host, so only those of this cluster are touched:
#
#   file in the cluster's folder ◄── lower ◄── upper, which a kubelet makes when a pod gets it as a block volume
#   file of the CSI pool, an XFS on such a lower one ◄── lower ◄── upper
#
#   loop_ours      their names, each before those that it stands on
#   loops_remove
#   loops_orphaned_remove    the upper ones of nodes that are gone

loop_ours() {
    loop_upper | cut -f1
    loop_lower
}

loop_lower() {
    local name device inode file own=() numbers=()
    mapfile -t own < <(loop_list | while IFS=$'\t' read -r name device inode file; do
        if [[ $device == "$(stat -c '%Hd:%Ld' "$states")" ]] && is_our_file "$file" "$inode"; then echo "$name"; fi
    done)
    for name in "${own[@]}"; do numbers+=("$(stat -c '%Hr:%Lr' "$name")"); done
    loop_list | while IFS=$'\t' read -r name device inode file; do
        if [[ " ${numbers[*]} " == *" $device "* ]]; then echo "$name"; fi
    done
    for name in "${own[@]}"; do echo "$name"; done
}

# They stand on the lower one's own file in /dev, under a name of the node. With the node that becomes "/".
loop_upper() {
    local name device inode file inodes=()
    for name in $(loop_lower); do inodes+=("$(stat -c %i "$name")"); done
    loop_list | while IFS=$'\t' read -r name device inode file; do
        if [[ $device == "$(stat -c '%Hd:%Ld' /dev)" && " ${inodes[*]} " == *" $inode "* ]]; then
            printf '%s\t%s\n' "$name" "$file"
        fi
    done
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
    # That of a node's mount goes with the mount, which may be this very moment.
    for name in $(loop_ours); do losetup --detach "$name" || [[ ! -e /sys/block/${name##*/}/loop ]]; done
}

loops_orphaned_remove() {
    local name
    for name in $(loop_upper | awk -F '\t' '$2 == "/" {print $1}'); do losetup --detach "$name"; done
}

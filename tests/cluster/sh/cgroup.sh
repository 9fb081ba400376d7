# shellcheck shell=bash
# One cgroup per node in every hierarchy, under which its kubelet keeps its pods: two kubelets on one root would remove
# each other's as orphans.
#
#   cgroup_make N / cgroup_remove N

# Of version 1 each controller has a folder here; of version 2 there is one for all.
cgroup_hierarchies() {
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
        echo /sys/fs/cgroup
    else
        local folder
        for folder in /sys/fs/cgroup/*/; do
            # cpu and cpuacct may be links to the same folder.
            if [[ ! -L ${folder%/} ]]; then echo "${folder%/}"; fi
        done
    fi
}

cgroup_make() {
    local hierarchy folder
    while read -r hierarchy; do
        folder=$hierarchy/$(node_name "$1")
        mkdir -p "$folder"
        if [[ -e $hierarchy/cpuset.cpus && -e $folder/cpuset.cpus && ! -e $hierarchy/cgroup.controllers ]]; then
            cat "$hierarchy/cpuset.cpus" >"$folder/cpuset.cpus"
            cat "$hierarchy/cpuset.mems" >"$folder/cpuset.mems"
        fi
        if [[ $hierarchy == /sys/fs/cgroup ]]; then
            cgroup_hand_on "$hierarchy"
            cgroup_hand_on "$folder"
        fi
    done < <(cgroup_hierarchies)
}

# Lets the folders below have every controller that this one has (version 2).
cgroup_hand_on() {
    local controller
    for controller in $(<"$1/cgroup.controllers"); do
        echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null || true
    done
}

cgroup_remove() {
    local hierarchy folder round
    while read -r hierarchy; do
        folder=$hierarchy/$(node_name "$1")
        # The kernel needs a moment after the last process of a folder has gone.
        for ((round = 0; round < 100; round++)); do
            if [[ ! -d $folder ]]; then break; fi
            if find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null; then break; fi
            sleep 0.05
        done
        if [[ -d $folder ]]; then echo "cluster: $folder is still in use, and stays" >&2; fi
    done < <(cgroup_hierarchies)
}

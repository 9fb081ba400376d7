# shellcheck shell=bash
# A node: one process tree in network, mount, pid, host name and IPC namespaces of its own. Its disk is $state/nodeN:
#
#   on the host                  in the node
#   $state                       /run/cluster        certificates, settings, volumes
#   what was built, bin          /run/programs
#   nodeN/{etc,var}.upper        /etc, /var          what the node changed of the host's
#   nodeN/{kubelet,containerd}   /var/lib/kubelet, /var/lib/containerd
#   nodeN/kubelet.ext4           /var/lib/kubelet of every node but the first: 2 GiB, which a story can fill
#   nodeN/tmp                    /tmp
#
# Everything else of the host's file system is the node's too: a pod that writes to a hostPath outside of /etc, /var,
# /run and /tmp writes to the host.
#
#   node_start N    from nothing, or from its disk, as after a power cut
#   node_end N      the power cut
#   node_remove N   and what a dead node leaves on the host (not its disk)
#   node_pid N      its first process, as the host counts them

node_start() {
    local node=$1 folder=$state/node$1
    loops_orphaned_remove
    mkdir -p "$folder"/{etc,var}.{upper,work} "$folder"/{kubelet,containerd,tmp,logs,parts}
    chmod 1777 "$folder/tmp"
    if ((node > 1)) && [[ ! -e $folder/kubelet.ext4 ]]; then
        truncate -s 2G "$folder/kubelet.ext4"
        mkfs.ext4 -q -m 0 "$folder/kubelet.ext4"
    fi
    cgroup_make "$node"
    local file
    for file in containerd.toml kubelet.yaml kube-proxy.yaml network.conflist; do
        fill "$file" "$folder/$file" "$node"
    done
    node_hosts >"$folder/hosts"
    net_node_commands "$node" >"$folder/network"
    printf 'search cluster.local\nnameserver %s\n' "$dns" >"$folder/resolv.conf"
    CLUSTER_OF=$state CLUSTER_NODE=$folder setsid nohup \
        unshare --net --mount --pid --uts --ipc --fork --kill-child=SIGKILL --propagation private \
        "$here/sh/node-init" "$node" "$state" "$programs" "$registry" "$here/sh" \
        </dev/null >"$folder/logs/init.log" 2>&1 {lock}>&- &
    wait_for 10 "the first process of node$node" node_pid "$node"
    net_node "$node" "$(node_pid "$node")"
}

# What of its file system the kubelet of a node wants free: little of the host's disk, which other programs fill too.
node_kept_free() { if (($1 > 1)); then echo 10%; else echo 1%; fi; }

node_hosts() {
    local other
    printf '127.0.0.1 localhost\n%s registry\n' "$gateway"
    for other in {1..9}; do echo "$(node_address "$other") node$other"; done
}

# The parent of a node's first process is the one of all its processes whose command is unshare.
node_parent() {
    local pid
    while read -r pid; do
        if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == unshare ]]; then echo "$pid"; fi
    done < <(carriers "CLUSTER_NODE=$state/node$1")
}

node_pid() {
    local parent
    parent=$(node_parent "$1")
    [[ $parent ]] && pgrep -P "$parent"
}

node_end() {
    local parent
    parent=$(node_parent "$1")
    # SIGKILL, as it waits with all other signals blocked.
    if [[ $parent ]]; then kill -KILL "$parent"; fi
    wait_for 10 "the processes of node$1 to end" node_is_gone "$1"
}

node_is_gone() { [[ -z $(carriers "CLUSTER_NODE=$state/node$1") ]]; }

node_remove() {
    net_node_remove "$1"
    cgroup_remove "$1"
}

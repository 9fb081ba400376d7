# shellcheck shell=bash
# The cluster's network on the host: one bridge, and a pair of links for each node. No rule of nftables or iptables is
# made here, and the host forwards nothing for the nodes: they reach it and each other, and no other network.
#
#   net_make / net_remove               the bridge, with the host's address on it
#   net_node N PID / net_node_remove N  a link into the network namespace of a node's first process, and the way to its pods
#   net_node_commands N                 what that process has to tell `ip`

net_make() {
    ip link add "$bridge" type bridge
    ip addr add "$gateway/24" dev "$bridge"
    ip link set "$bridge" up
}

net_remove() {
    if [[ -e /sys/class/net/$bridge ]]; then ip link del "$bridge"; fi
}

# The namespace has no name: it ends with the node's last process, and the link with it.
net_node() {
    local link
    link=$(node_link "$1")
    net_node_remove "$1"
    ip link add "$link" type veth peer name eth0 netns "$2"
    ip link set "$link" master "$bridge" up
    ip route replace "$(node_pods "$1")" via "$(node_address "$1")"
}

net_node_commands() {
    local other
    printf '%s\n' "link set lo up" "addr add $(node_address "$1")/24 dev eth0" "link set eth0 up" \
        "route add default via $gateway"
    for other in {1..9}; do
        if ((other != $1)); then echo "route add $(node_pods "$other") via $(node_address "$other")"; fi
    done
}

net_node_remove() {
    local link
    link=$(node_link "$1")
    # The kernel may be about to do it.
    if [[ -e /sys/class/net/$link ]]; then ip link del "$link" 2>/dev/null || [[ ! -e /sys/class/net/$link ]]; fi
}

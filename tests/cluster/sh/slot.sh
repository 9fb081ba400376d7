# shellcheck shell=bash
# A cluster's number, and the names and addresses that follow from it. Ten clusters fit on a host at a time; each
# takes the first number that is free, and a file says who has it.
#
#   10.(90+slot).0.0/16 ┬ .0.0/24        the bridge: the host is .0.1, node N is .0.(10+N)
#                       ├ .(64+N).0/24   the pods of node N
#                       └ .128.0/17      services; the API server is .128.1, DNS .128.10
#
#   slot_claim     takes a number, or finds the one this cluster has; sets all names below
#   slot_known     sets them for the number this cluster has; fails when it has none
#   slot_release   gives it back

slot_names() {
    slot=$1
    prefix=10.$((90 + slot))
    gateway=$prefix.0.1
    services=$prefix.128.0/17
    pods=$prefix.64.0/18
    dns=$prefix.128.10
    etcd=127.90.$slot.1
    bridge=coracle$slot
    registry=$gateway:5000
    api=https://$gateway:6443
}

node_address() { echo "$prefix.0.$((10 + $1))"; }
node_pods() { echo "$prefix.$((64 + $1)).0/24"; }
# Its folder in each cgroup hierarchy.
node_name() { echo "$bridge-node$1"; }
node_link() { echo "${bridge}n$1"; }

slot_known() {
    local file
    file=$(slot_file) || return 1
    slot_names "${file##*/}"
}

slot_file() { grep -slFx "state $state" "$states"/slots/[0-9] | head -n 1 | grep .; }

slot_claim() {
    if slot_known; then return; fi
    mkdir -p "$states/slots"
    local lock number
    exec {lock}>"$states/slots/lock"
    flock "$lock"
    for number in {0..9}; do
        if slot_free "$number"; then
            printf '%s\n' "state $state" "clone $clone" "pid $$" "since $(date -Is)" >"$states/slots/$number"
            exec {lock}>&-
            slot_names "$number"
            return
        fi
    done
    exec {lock}>&-
    die "all ten numbers for clusters are taken, or their addresses (10.90.0.0 to 10.99.255.255) are routed elsewhere:" \
        $'\n'"$(grep -s . "$states"/slots/[0-9])"
}

slot_free() {
    [[ ! -e $states/slots/$1 && ! -e /sys/class/net/coracle$1 ]] || return 1
    [[ -z $(ip -4 route show root "10.$((90 + $1)).0.0/16") ]]
}

slot_release() {
    local file
    if file=$(slot_file); then rm "$file"; fi
}

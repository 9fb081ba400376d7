# shellcheck shell=bash
# Everything that up, down and the small tools share.
# shellcheck source=tests/cluster/sh/paths.sh
source "$(dirname "${BASH_SOURCE[0]}")/paths.sh"
# shellcheck source=tests/cluster/sh/slot.sh
source "$(dirname "${BASH_SOURCE[0]}")/slot.sh"
# shellcheck source=tests/cluster/sh/process.sh
source "$(dirname "${BASH_SOURCE[0]}")/process.sh"
# shellcheck source=tests/cluster/sh/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=tests/cluster/sh/certs.sh
source "$(dirname "${BASH_SOURCE[0]}")/certs.sh"
# shellcheck source=tests/cluster/sh/net.sh
source "$(dirname "${BASH_SOURCE[0]}")/net.sh"
# shellcheck source=tests/cluster/sh/cgroup.sh
source "$(dirname "${BASH_SOURCE[0]}")/cgroup.sh"
# shellcheck source=tests/cluster/sh/node.sh
source "$(dirname "${BASH_SOURCE[0]}")/node.sh"
# shellcheck source=tests/cluster/sh/control.sh
source "$(dirname "${BASH_SOURCE[0]}")/control.sh"
# shellcheck source=tests/cluster/sh/csi.sh
source "$(dirname "${BASH_SOURCE[0]}")/csi.sh"
# shellcheck source=tests/cluster/sh/loop.sh
source "$(dirname "${BASH_SOURCE[0]}")/loop.sh"

# Only one of up and down at a time, for one cluster.
lock_state() {
    mkdir -p "$states/locks"
    exec {lock}>"$states/locks/$cluster"
    if ! flock -n "$lock"; then
        echo "cluster: waiting for another start or stop of $cluster to end" >&2
        flock "$lock"
    fi
}

nodes_there() {
    local folder
    for folder in "$state"/node[1-9]; do
        if [[ -d $folder ]]; then echo "${folder##*/node}"; fi
    done
}

# Is it up? Then its names are known too.
require_up() {
    if [[ ! -e $state/up ]] || ! slot_known; then
        die "no cluster '$cluster' is up (its folder would be $state); run: make cluster-up"
    fi
    programs=$(cat "$state/programs")
    PATH=$programs:$PATH
}

kube() { "$programs/kubectl" --kubeconfig "$state/pki/admin.conf" "$@"; }

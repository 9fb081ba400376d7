# shellcheck shell=bash
# The CSI drivers (csi/driver) and the sidecars of Kubernetes. Their controllers run on the host, as the control plane
# does; volumes are files in a pool, an XFS file system in $state/csi/pool.img that only the controllers mount:
#
#   StorageClass csi-*        ── csi        with snapshots       each: driver, provisioner, attacher, resizer, and with
#   StorageClass csi-plain-*  ── csi-plain  without                    snapshots the snapshotter; one on every node
#
#   csi_possible      fails and says why, if this host cannot
#   csi_start WHERE   the programs in the folder WHERE; returns when the drivers are registered on every node

csi_drivers=(csi csi-plain)
csi_control=(csi-driver csi-provisioner csi-attacher csi-resizer csi-snapshotter snapshot-controller
    csi-plain-driver csi-plain-provisioner csi-plain-attacher csi-plain-resizer)

csi_possible() {
    type -P mkfs.xfs >/dev/null || die "mkfs.xfs is missing for the pool of CSI volumes (Debian's package xfsprogs)"
}

csi_start() {
    local bin=$1/bin device node
    mkdir -p "$state/csi/mount"
    kube apply -f "$1/crds.yaml" >/dev/null
    kube wait -f "$1/crds.yaml" --for condition=Established --timeout 30s >/dev/null
    kube apply -f "$here/conf/csi.yaml" >/dev/null
    device=$(csi_pool)
    # Sidecars end where their driver does not answer for long, and are started again.
    csi_controller csi "$device" "$bin" true
    csi_controller csi-plain "$device" "$bin" false
    csi_part csi-snapshotter "$bin/csi-snapshotter" --csi-address "$state/csi/csi.sock" --kubeconfig "$state/pki/admin.conf" \
        --retry-interval-max 5s
    csi_part snapshot-controller "$bin/snapshot-controller" --kubeconfig "$state/pki/admin.conf" --retry-interval-max 5s
    echo "$bin" >"$state/csi/programs"
    for node in $(nodes_there); do csi_node "$node"; done
    for node in $(nodes_there); do wait_for 60 "the CSI drivers of node$node" csi_registered "$node"; done
    touch "$state/csi/up"
}

# The name of the driver in StorageClasses.
csi_name() { if [[ $1 == csi ]]; then echo csi.coracle.example; else echo plain.csi.coracle.example; fi; }

# The pool's device. Its space is taken from the host's disk when something is written.
csi_pool() {
    local file=$state/csi/pool.img
    if [[ ! -e $file ]]; then
        truncate -s "${CSI_POOL:-256G}" "$file.new"
        mkfs.xfs -q -f "$file.new"
        mv "$file.new" "$file"
    fi
    losetup --noheadings --output NAME --associated "$file" | grep . || losetup --find --show "$file"
}

csi_controller() {
    local driver=$1 device=$2 bin=$3 snapshots=$4 words
    words=(--csi-address "$state/csi/$driver.sock" --kubeconfig "$state/pki/admin.conf" --retry-interval-max 5s)
    csi_part "$driver-driver" unshare --mount --propagation slave "$here/sh/csi-controller" "$device" "$state/csi/mount" \
        "$driver" "$bin/csi-driver" --name "$(csi_name "$driver")" --endpoint "$state/csi/$driver.sock" --snapshots="$snapshots" \
        --nodes "$(printf 'node%s,' {1..9})"
    csi_part "$driver-provisioner" env NAMESPACE=kube-system "$bin/csi-provisioner" "${words[@]}" --default-fstype xfs \
        --enable-capacity --capacity-ownerref-level -1 --capacity-poll-interval 5s --kube-api-qps 100 --kube-api-burst 200
    csi_part "$driver-attacher" "$bin/csi-attacher" "${words[@]}" --kube-api-qps 100 --kube-api-burst 200
    csi_part "$driver-resizer" "$bin/csi-resizer" "${words[@]}"
}

# A start that was interrupted may have started it.
csi_part() { [[ -e $state/parts/$1.pid ]] || start "$state" "$@"; }

# On a node that is there already; one that starts later does the same by itself (sh/node-init).
csi_node() {
    if [[ -e $state/node$1/parts/csi.pid ]]; then return; fi
    CLUSTER_OF=$state CLUSTER_NODE=$state/node$1 setsid nohup \
        nsenter --target "$(node_pid "$1")" --mount --net --pid --uts --ipc -- /run/scripts/csi-node "node$1" \
        </dev/null >>"$state/node$1/logs/csi.log" 2>&1 {lock}>&- &
}

csi_registered() {
    local driver names
    names=$(kube get csinode "node$1" -o 'jsonpath={.spec.drivers[*].name}')
    for driver in "${csi_drivers[@]}"; do [[ " $names " == *" $(csi_name "$driver") "* ]] || return 1; done
}

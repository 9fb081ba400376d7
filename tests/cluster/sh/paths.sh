# shellcheck shell=bash
# Where everything is. To be sourced by every program of this folder, first.
#
#   here      this folder                                     cache   what is built, once for all clones of the same content
#   state     this cluster's own folder, outside the clone    states  the folders of all clusters of this user

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
clone=$(cd "$here/../.." && pwd)
states=${CORACLE_CLUSTER_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/coracle/cluster}
caches=${CORACLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coracle}/cluster

# Every clone has a cluster of its own; CLUSTER=NAME means one that several share.
cluster=${CLUSTER:-$(basename "$clone")-$(sha256sum <<<"$clone" | head -c 6)}
state=$states/$cluster

# Ours comes first, if .ci/setup found none that would do.
PATH=$(printf '%s:' "${caches%/cluster}"/tools/go-*/bin)$PATH:/usr/local/go/bin:/usr/sbin:/sbin

die() {
    echo "cluster: $*" >&2
    exit 1
}

# The built programs depend on these files and on nothing else; those of CSI (csi/build) on their own.
sources() { find "$here"/{go.mod,go.sum,kube,coredns,volumes,networks,pause,virtctl,helm,clients/go.*,clients/*.go,build,sh/build.sh,sh/images.sh} -type f | sort; }
csi_sources() { find "$here"/{csi/go.mod,csi/go.sum,csi/driver,csi/build,sh/build.sh} -type f | sort; }

# The folders of what was built from them.
built() { echo "$caches/$(sources | content_hash)"; }
csi_built() { echo "$caches/csi-$(csi_sources | content_hash)"; }

content_hash() {
    while read -r file; do (cd "$here" && sha256sum "${file#"$here"/}"); done | sha256sum | head -c 16
}

# Is all of it there?
is_built() { [[ -e $1/whole ]]; }

# Seconds since the host started, for laps; unlike the time of day it never jumps.
uptime_now() {
    local seconds rest
    read -r seconds rest </proc/uptime
    echo "$seconds"
}

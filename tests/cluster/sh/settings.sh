# shellcheck shell=bash
# The files of conf/, with this cluster's names in the places marked @LIKE_THIS@.
#
#   fill FILE OUT [NODE]

fill() {
    local node=${3:-0}
    sed -e "s|@STATE@|$state|g" -e "s|@DNS@|$dns|g" -e "s|@PODS@|$pods|g" -e "s|@REGISTRY@|$registry|g" \
        -e "s|@GATEWAY@|$gateway|g" -e "s|@NODE@|$node|g" -e "s|@NODE_NAME@|$(node_name "$node")|g" \
        -e "s|@NODE_PODS@|$(node_pods "$node")|g" -e "s|@KEPT_FREE@|$(node_kept_free "$node")|g" "$here/conf/$1" >"$2"
    if grep -q '@[A-Z_]*@' "$2"; then die "conf/$1 names something that sh/settings.sh does not know"; fi
}

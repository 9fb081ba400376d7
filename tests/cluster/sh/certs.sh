# shellcheck shell=bash
# The cluster's authorities, certificates and kubeconfigs, in $state/pki; new for each start from nothing.
#
#   certs_make NODES

certs_make() (
    local nodes=$1 n
    mkdir -p "$state/pki"
    cd "$state/pki"
    umask 077

    authority ca kubernetes
    authority front-proxy-ca front-proxy-ca
    certificate ca apiserver /CN=kube-apiserver serverAuth \
        "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$prefix.128.1,IP:$gateway"
    certificate ca apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
    certificate front-proxy-ca front-proxy-client /CN=front-proxy-client clientAuth
    key service-accounts
    openssl ec -in service-accounts.key -pubout -out service-accounts.pub 2>/dev/null

    client admin /O=system:masters/CN=kubernetes-admin
    client kube-controller-manager /CN=system:kube-controller-manager
    client kube-scheduler /CN=system:kube-scheduler
    client kube-proxy /CN=system:kube-proxy
    for ((n = 1; n <= nodes; n++)); do certs_node "$n"; done
)

# Certificates of node N: to ask the API server, and to be asked by it.
certs_node() (
    cd "$state/pki"
    umask 077
    client "node$1" "/O=system:nodes/CN=system:node:node$1"
    certificate ca "node$1-serving" "/CN=node$1" serverAuth "DNS:node$1,IP:$(node_address "$1")"
)

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

authority() {
    key "$1"
    openssl req -x509 -new -key "$1.key" -subj "/CN=$2" -days 3650 -out "$1.crt" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
}

# certificate AUTHORITY NAME SUBJECT USAGE [OTHER-NAMES]
certificate() {
    local extensions="basicConstraints=CA:FALSE
keyUsage=critical,digitalSignature,keyEncipherment
extendedKeyUsage=$4"
    if [[ ${5:-} ]]; then extensions+=$'\n'"subjectAltName=$5"; fi
    key "$2"
    openssl req -new -key "$2.key" -subj "$3" |
        openssl x509 -req -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days 3650 -extfile <(cat <<<"$extensions") \
            -out "$2.crt" 2>/dev/null
}

# client NAME SUBJECT    with a kubeconfig of that name
client() {
    certificate ca "$1" "$2" clientAuth
    cat >"$1.conf" <<CONF
apiVersion: v1
kind: Config
current-context: $cluster
clusters: [{name: $cluster, cluster: {server: "$api", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: $cluster, context: {cluster: $cluster, user: $1}}]
CONF
}

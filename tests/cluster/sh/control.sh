# shellcheck shell=bash
# The control plane. It runs on the host itself, not in a node, and listens on the cluster's bridge:
#
#   etcd ◄── kube-apiserver ◄── controller manager, scheduler, volumes (once the API answers), nodes, you
#
#   control_start    etcd and the API server; returns at once
#   control_answers  does the API answer?
#   control_rest     the others

control_start() {
    start "$state" etcd etcd --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn --quota-backend-bytes 8589934592 \
        --listen-client-urls "http://$etcd:2379" --advertise-client-urls "http://$etcd:2379" \
        --listen-peer-urls "http://$etcd:2380" --initial-advertise-peer-urls "http://$etcd:2380" \
        --initial-cluster "default=http://$etcd:2380"
    local pki=$state/pki
    local words=(
        --etcd-servers "http://$etcd:2379" --bind-address "$gateway" --advertise-address "$gateway" --secure-port 6443
        --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" --client-ca-file "$pki/ca.crt"
        --authorization-mode "Node,RBAC" --allow-privileged
        --enable-admission-plugins "NodeRestriction,OwnerReferencesPermissionEnforcement"
        --service-cluster-ip-range "$services" --profiling=false --v=1
        # to the kubelets
        --kubelet-certificate-authority "$pki/ca.crt" --kubelet-client-certificate "$pki/apiserver-kubelet-client.crt"
        --kubelet-client-key "$pki/apiserver-kubelet-client.key" --kubelet-preferred-address-types InternalIP
        # tokens of service accounts
        --service-account-issuer https://kubernetes.default.svc.cluster.local
        --service-account-key-file "$pki/service-accounts.pub" --service-account-signing-key-file "$pki/service-accounts.key"
        # aggregated APIs. The host has no cluster addresses, so they and webhooks are reached at their pods.
        --requestheader-client-ca-file "$pki/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group
        --requestheader-extra-headers-prefix X-Remote-Extra-
        --proxy-client-cert-file "$pki/front-proxy-client.crt" --proxy-client-key-file "$pki/front-proxy-client.key"
        --enable-aggregator-routing
    )
    if [[ ${AUDIT:-} ]]; then
        words+=(--audit-policy-file "$here/conf/audit.yaml" --audit-log-path "$state/logs/audit.log")
    fi
    start "$state" kube-apiserver kube-apiserver "${words[@]}"
}

control_answers() { curl -sf -m 5 --cacert "$state/pki/ca.crt" "$api/readyz"; }

# Not earlier: without the roles that the API server makes first, the controller manager ends.
control_rest() {
    # Its clients may ask often, or the service accounts' tokens take seconds.
    start "$state" kube-controller-manager kube-controller-manager --kubeconfig "$state/pki/kube-controller-manager.conf" \
        --authentication-kubeconfig "$state/pki/kube-controller-manager.conf" \
        --authorization-kubeconfig "$state/pki/kube-controller-manager.conf" \
        --service-account-private-key-file "$state/pki/service-accounts.key" --root-ca-file "$state/pki/ca.crt" \
        --cluster-signing-cert-file "$state/pki/ca.crt" --cluster-signing-key-file "$state/pki/ca.key" \
        --use-service-account-credentials --kube-api-qps 500 --kube-api-burst 1000 \
        --node-monitor-grace-period 20s --leader-elect=false --bind-address "$gateway" --v=1
    fill scheduler.yaml "$state/scheduler.yaml"
    start "$state" kube-scheduler kube-scheduler --config "$state/scheduler.yaml" \
        --authentication-kubeconfig "$state/pki/kube-scheduler.conf" \
        --authorization-kubeconfig "$state/pki/kube-scheduler.conf" --bind-address "$gateway" --v=1
    start "$state" volumes volumes --kubeconfig "$state/pki/admin.conf" --folder "$state/volumes" \
        --in-node /run/cluster/volumes
}

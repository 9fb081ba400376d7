# shellcheck shell=bash
# To be sourced: Debian's docker-registry on a free loopback port, for the demo.
#
#   registry_start STATE   its storage and log lie in STATE; sets registry_port and registry_pid
#   registry_stop PID      as a host does that loses power; its storage stays

registry_start() {
    local state=$1 try
    mkdir -p "$state"
    registry_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >"$state/config.yml" <<CONF
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: $state/data}}
http: {addr: 127.0.0.1:$registry_port, secret: not-secret}
CONF
    docker-registry serve "$state/config.yml" >"$state/log" 2>&1 &
    registry_pid=$!
    for ((try = 0; try < 200; try++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$registry_port") 2>/dev/null; then return; fi
        sleep 0.05
    done
    cat "$state/log" >&2
    echo "docker-registry does not answer on port $registry_port" >&2
    return 1
}

registry_stop() {
    kill -KILL "$1" 2>/dev/null || true
    # The shell would say that it was killed.
    wait "$1" 2>/dev/null || true
}

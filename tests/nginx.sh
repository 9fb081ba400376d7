# shellcheck shell=bash
# To be sourced: nginx on a free loopback port, for the demo and the benchmarks.
#
#   nginx_start FOLDER STATE [LIMIT]   serves FOLDER; its log and pid lie in STATE; LIMIT (like 20m) slows each
#                                      connection; sets nginx_port and nginx_pid; passes /v2/ on to the registry at
#                                      nginx_registry (host:port), if that is set
#   nginx_sent STATE                   prints how many bytes of bodies it sent since it was last asked
#   nginx_stop                         stops the one started last

nginx_start() {
    local folder=$1 state=$2 limit=${3:-0}
    mkdir -p "$state"
    local registry=
    if [[ ${nginx_registry:-} ]]; then
        registry="location /v2/ { proxy_pass http://$nginx_registry; proxy_set_header Host \$http_host;
            proxy_request_buffering off; client_max_body_size 0; proxy_max_temp_file_size 0; }"
    fi
    nginx_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >"$state/nginx.conf" <<CONF
user $(id -un) $(id -gn);
pid $state/pid;
daemon off;
error_log $state/error.log;
worker_processes 1;
events { worker_connections 256; }
http {
    log_format sent '\$body_bytes_sent \$request';
    access_log $state/access.log sent;
    client_body_temp_path $state/body; proxy_temp_path $state/proxy; fastcgi_temp_path $state/fastcgi;
    uwsgi_temp_path $state/uwsgi; scgi_temp_path $state/scgi;
    sendfile on;
    limit_rate $limit;
    default_type application/octet-stream;
    server { listen 127.0.0.1:$nginx_port; root $folder; $registry }
}
CONF
    : >"$state/access.log"
    nginx -p "$state" -e "$state/error.log" -c "$state/nginx.conf" 2>>"$state/error.log" &
    nginx_pid=$!
    local try
    for ((try = 0; try < 100; try++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$nginx_port") 2>/dev/null; then return; fi
        sleep 0.05
    done
    cat "$state/error.log" >&2
    echo "nginx does not answer on port $nginx_port" >&2
    return 1
}

nginx_sent() {
    # Logged when a response ends, so a moment after the client has the last byte.
    sleep 0.2
    awk '{ sum += $1 } END { print sum + 0 }' "$1/access.log"
    : >"$1/access.log"
}

nginx_stop() {
    if [[ ${nginx_pid:-} ]]; then
        kill "$nginx_pid" 2>/dev/null || true
        wait "$nginx_pid" 2>/dev/null || true
        nginx_pid=
    fi
}

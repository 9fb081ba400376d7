# shellcheck shell=bash
# The images that every cluster needs, made without a builder: a layer is one tar file. They wait as the storage of a
# registry, which each new cluster copies, so that nodes pull them as they pull any other.
#
#   images_make BIN REGISTRY    pause, busybox, coredns and sidecar-shim, from the programs in BIN, into the folder REGISTRY

images_make() {
    local bin=$1 storage=$2 begin work
    begin=$(uptime_now)
    work=$(mktemp -d)
    mkdir -p "$work"/{pause,busybox/{bin,etc,tmp,root},coredns}
    cp "$bin/pause" "$work/pause/"
    cp "$bin/coredns" "$work/coredns/"
    chmod 1777 "$work/busybox/tmp"
    cp "$(type -P busybox)" "$work/busybox/bin/busybox"
    if ldd "$work/busybox/bin/busybox" &>/dev/null; then die "this busybox needs libraries; install busybox-static"; fi
    (cd "$work/busybox/bin" && for name in $(./busybox --list); do [[ $name == busybox ]] || ln -s busybox "$name"; done)
    printf 'root:x:0:0:root:/root:/bin/sh\nqemu:x:107:107:qemu:/:/bin/sh\n' >"$work/busybox/etc/passwd"
    printf 'root:x:0:\nqemu:x:107:\n' >"$work/busybox/etc/group"

    # KubeVirt's own, which runs scripts of a ConfigMap, with a shell for them.
    cp -a "$work/busybox" "$work/sidecar-shim"
    cp "$bin/sidecar-shim" "$work/sidecar-shim/"

    images_archive "$work/pause" '{"Entrypoint":["/pause"]}' "$work/pause.tar"
    images_archive "$work/busybox" '{"Env":["PATH=/bin"],"Cmd":["sh"]}' "$work/busybox.tar"
    images_archive "$work/coredns" '{"Entrypoint":["/coredns"]}' "$work/coredns.tar"
    images_archive "$work/sidecar-shim" '{"Env":["PATH=/bin:/usr/bin"],"Entrypoint":["/sidecar-shim"]}' "$work/sidecar-shim.tar"
    images_store "$storage" "$work"/{pause,busybox,coredns,sidecar-shim}.tar
    rm -rf "$work"
    printf '%7.1f s  %s\n' "$(bc <<<"$(uptime_now) - $begin")" "images"
}

# images_archive ROOT CONFIG OUT    an archive with one image, whose one layer is the folder ROOT
images_archive() {
    local root=$1 config=$2 out=$3 work digest
    work=$(mktemp -d)
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -cf "$work/layer.tar" .
    digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
    jq -cn --argjson config "$config" --arg digest "sha256:$digest" '{architecture: "amd64", os: "linux", $config,
        created: "1970-01-01T00:00:00Z", rootfs: {type: "layers", diff_ids: [$digest]}}' >"$work/config.json"
    jq -cn '[{Config: "config.json", RepoTags: null, Layers: ["layer.tar"]}]' >"$work/manifest.json"
    tar -C "$work" -cf "$out" manifest.json config.json layer.tar
    rm -rf "$work"
}

# images_store STORAGE ARCHIVE...    sends each to a registry of its own, as FILE:1, and leaves its storage
images_store() {
    local storage=$1 archive pid
    shift
    # shellcheck source=tests/registry.sh
    source "$clone/tests/registry.sh"
    registry_start "$storage"
    pid=$registry_pid
    for archive; do
        if ! skopeo --insecure-policy copy --quiet --dest-tls-verify=false "docker-archive:$archive" \
            "docker://127.0.0.1:$registry_port/$(basename "$archive" .tar):1"; then
            registry_stop "$pid"
            die "the image $archive did not reach the registry of $storage"
        fi
    done
    registry_stop "$pid"
    mv "$storage/data"/* "$storage/"
    rm -r "$storage/data" "$storage/config.yml" "$storage/log"
}

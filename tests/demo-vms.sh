# shellcheck shell=bash
# To be sourced by demo.sh, whose folder and words it uses: the third part, about VMs.

# A manifest as a cluster takes it, with the image from the registry that is left.
manifest() {
    cat <<YAML
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: boat
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        cpu: { cores: 2 }
        memory: { guest: 1Gi }
        devices:
          disks:
            - { name: system, disk: { bus: virtio } }
            - { name: settings, disk: { bus: virtio } }
          interfaces:
            - { name: default, masquerade: {} }
          rng: {}
      terminationGracePeriodSeconds: 60
      networks:
        - { name: default, pod: {} }
      volumes:
        - name: system
          containerDisk: { image: "$second/debian:12" }
        - name: settings
          cloudInitNoCloud:
            userData: |
              #cloud-config
              hostname: boat
              locale: false
              users:
                - name: demo
                  plain_text_passwd: coracle
                  lock_passwd: false
                  shell: /bin/bash
                  sudo: ALL=(ALL) NOPASSWD:ALL
                  ssh_authorized_keys: [ "$(<key.pub)" ]
YAML
}

# A script plays the person at the terminal.
run_vm() {
    ssh-keygen -q -t ed25519 -N '' -C demo -f key
    manifest >boat.yaml
    show cat boat.yaml
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    echo "\$ coracle run boat.yaml -p $port:22"
    # Bars are for terminals.
    local quiet=(--quiet)
    if [[ -t 1 ]]; then quiet=(); fi
    "$here/tests/demo-console.py" 240 'login: ' 'demo\n' 'Password: ' 'coracle\n' \
        'demo@boat:~$ ' 'grep PRETTY /etc/os-release; uname -r; lsblk -o NAME,SIZE,LABEL\n' \
        'demo@boat:~$ ' '\x1d' -- coracle run "${quiet[@]}" boat.yaml -p "$port:22"
    say "It goes on without the terminal"
    show coracle ps
}

reach_vm() {
    local ssh=(ssh -p "$port" -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
    echo "\$ ssh -p $port -i key demo@127.0.0.1 'uptime; ip -4 -brief address; sudo id -un'"
    "${ssh[@]}" -o ConnectTimeout=60 demo@127.0.0.1 'uptime; ip -4 -brief address; sudo id -un'
    show coracle exec boat -- cat /etc/hostname
    show coracle vnc boat --screenshot boat.png
    keep boat.png
    say "The memory of each process"
    costs boat
}

# Kept where a person finds it afterwards.
keep() {
    mkdir -p "$cache/demo"
    cp "$1" "$cache/demo/$1"
    echo "($(pngtopnm "$1" 2>/dev/null | sed -n 2p | tr ' ' x), $(stat -c %s "$1") bytes; kept as $cache/demo/$1)"
}

# The memory of each process of a VM.
costs() {
    local pid
    printf '%-22s %10s %14s\n' process RSS 'private dirty'
    for pid in $(processes); do
        printf '%-22s %6s MiB %10s MiB\n' "$(</proc/"$pid"/comm)" \
            "$(($(awk '/^Rss:/ { print $2 }' "/proc/$pid/smaps_rollup") / 1024))" \
            "$(($(awk '/^Private_Dirty:/ { print $2 }' "/proc/$pid/smaps_rollup") / 1024))"
    done
}

# The processes of all VMs of the demo, which have its folder in their arguments.
processes() {
    local at
    for at in /proc/[0-9]*; do
        if [[ $(readlink "$at/exe") == */@(virt-launcher|qemu-system-*) ]] &&
            tr '\0' ' ' 2>/dev/null <"$at/cmdline" | grep -qF "$CORACLE_HOME"; then
            echo "${at##*/}"
        fi
    done
}

stop_vm() {
    show coracle stop boat
    show coracle ps --all
    show coracle rm boat
}

run_iso() {
    echo "\$ coracle run --detach --name tester memtest.iso --disk empty.img:1GiB --memory 256MiB"
    coracle run --detach --name tester memtest.iso --disk empty.img:1GiB --memory 256MiB
    # Until there is more to see than the firmware's words.
    local try before=0 now
    for ((try = 0; try < 120; try++)); do
        coracle vnc tester --screenshot tester.png
        now=$(stat -c %s tester.png)
        if ((before > 4000 && now > 4000)); then break; fi
        before=$now
        sleep 0.5
    done
    show coracle vnc tester --screenshot tester.png
    keep tester.png
    show coracle kill tester
    show coracle rm tester
}

# After any outcome no VM of the demo is left.
end_vms() {
    local pid
    if ! compgen -G "$CORACLE_HOME/state/vms/*" >/dev/null; then return; fi
    timeout 60 coracle rm --force $(ls "$CORACLE_HOME/state/vms")
    for pid in $(processes); do kill -KILL "$pid"; done
}

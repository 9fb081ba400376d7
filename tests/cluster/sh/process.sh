# shellcheck shell=bash
# The parts of a cluster are processes that carry CLUSTER_OF=STATE in their environment: so they are found again without
# any list that a crash could leave wrong. Each is looked after by sh/keep, which starts it again when it ends.
#
#   start FOLDER NAME COMMAND...   looked after; FOLDER/parts/NAME.pid, FOLDER/logs/NAME.log. Call lock_state before:
#                                  they must not hold our lock
#   ours                           the ids of all of them, the keepers' too
#   kill_ours                      ends them all, and waits until they are gone
#   wait_for SECONDS WHAT COMMAND...

start() {
    local folder=$1 name=$2
    mkdir -p "$folder/parts" "$folder/logs"
    CLUSTER_OF=$state setsid nohup "$here/sh/keep" "$@" </dev/null >>"$folder/logs/$name.log" 2>&1 {lock}>&- &
}

ours() { carriers "CLUSTER_OF=$state"; }

# Processes with this setting in their environment. A process may go while we look.
carriers() { grep -slzFx "$1" /proc/[0-9]*/environ | cut -d/ -f3 || true; }

kill_ours() {
    local pids round
    for ((round = 0; round < 400; round++)); do
        mapfile -t pids < <(ours)
        ((${#pids[@]})) || return 0
        # With a node's first process the kernel ends every other in it, and frees its mounts.
        kill -KILL "${pids[@]}" 2>/dev/null || true
        sleep 0.05
    done
    die "after 20 s these processes of the cluster have not ended: ${pids[*]}"
}

wait_for() {
    local seconds=$1 what=$2 end
    shift 2
    end=$(bc <<<"$(uptime_now) + $seconds")
    until "$@" >/dev/null 2>&1; do
        if [[ $(bc <<<"$(uptime_now) > $end") == 1 ]]; then
            die "waited $seconds s for $what, in vain; the logs are in $state/logs and $state/node*/logs"
        fi
        sleep 0.05
    done
}

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# What the scripts of this directory share; each gets its path as its first argument, and sources it. A check is a
# function that fails, or not; it prints `ok:` or `failed:`, and finish() the line that counts. A process takes a tenth
# of a second and more to start in the guest, so that what a shell can do by itself is not left to programs.
passed=0 failed=0

# check NAME COMMAND...: what it has printed, and /tmp/out, are shown if it fails.
check() {
    name=$1
    shift
    if "$@" >/tmp/check 2>&1; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        failed=$((failed + 1))
        echo "failed: $name"
        head -c 4000 /tmp/check
        [ ! -e /tmp/out ] || head -c 8000 /tmp/out
    fi
}

# Ends the script.
finish() {
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ]
    exit
}

# ranks ENVIRONMENT ARGUMENT...: three ranks of `$TUTTI bench` with this environment, in which \$TUTTI_RANK is the rank;
# what they print is in /tmp/out, and a rank's process in /tmp/process.RANK.
ranks() {
    environment=$1
    shift
    rm -f /tmp/process.*
    timeout 60 "$TUTTI" run -n "${RANKS:-3}" -- sh -c "echo \$\$ >/tmp/process.\$TUTTI_RANK
        export $environment; exec $TUTTI bench $* --json" >/tmp/out 2>&1
}

# says TEXT...: all of these stand in /tmp/out.
says() {
    out=$(cat /tmp/out)
    for text; do
        case $out in
        *"$text"*) ;;
        *)
            echo "not said: $text"
            return 1
            ;;
        esac
    done
}

# value KEY: the number behind it (the last time it stands in a line) in every line of /tmp/out, added up; nothing if
# there is none.
value() {
    awk -v key="\"$1\": " '{ n = split($0, part, key); if (n > 1) { sum += part[n]; lines++ } }
        END { if (lines) print sum }' /tmp/out
}

# wait_until COMMAND...: up to half a minute.
wait_until() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.1
    done
}

# listens PORT: a TCP socket does.
listens() {
    grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6
}

# have_sent COUNT: the first device so many packets.
have_sent() {
    read -r count </sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
    [ "$count" -ge "$1" ]
}

# killed_rank_is_named_to_the_others ENVIRONMENT ALGORITHM: who is gone, in time, and while broadcasts are under way.
# Queue pairs and memberships go with the process, which run_suite.py compares.
killed_rank_is_named_to_the_others() {
    have_sent 0
    ranks "$1 TUTTI_TIMEOUT=30s" broadcast --algorithm "$2" -b 2M -e 2M -i 1000 -w 0 &
    job=$!
    wait_until have_sent $((count + 1500)) || return 1 # more than one broadcast is
    read -r begun _ </proc/uptime
    kill -9 "$(cat /tmp/process.2)"
    wait $job
    status=$?
    read -r ended _ </proc/uptime
    took=$((${ended%.*} - ${begun%.*}))
    echo "status $status after $took s"
    [ "$status" -ne 0 ] && [ "$took" -le 5 ] && says 'rank 2'
}

#!/usr/bin/env bash
# Runs a script on two processes that see each other as two hosts: namespaces of their own for
# networks and processes, with a link of a given rate between them. Needs root, ip, tc and unshare.
#
#     lab/bench/python/two_hosts.sh 10gbit lab/bench/python/pipeline.py --batch 512
set -euo pipefail
rate=$1
shift
folder=$(mktemp -d)
stop() {
    ip netns del armillary0 2>/dev/null || true
    ip netns del armillary1 2>/dev/null || true
    rm -rf "$folder"
}
trap stop EXIT
stop
mkdir -p "$folder"
ip netns add armillary0
ip netns add armillary1
ip link add eth0 netns armillary0 type veth peer name eth0 netns armillary1
for host in 0 1; do
    ip -n "armillary$host" addr add "10.9.0.$((host + 1))/24" dev eth0
    ip -n "armillary$host" link set lo up
    ip -n "armillary$host" link set eth0 up
    tc -n "armillary$host" qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 20ms
done
for host in 0 1; do
    GLOO_SOCKET_IFNAME=eth0 ip netns exec "armillary$host" unshare --pid --fork --mount-proc \
        torchrun --nnodes 2 --nproc-per-node 1 --node-rank "$host" \
        --master-addr 10.9.0.1 --master-port 29511 "$@" >"$folder/$host" 2>&1 &
done
wait -n && wait -n || { cat "$folder"/*; exit 1; }
cat "$folder"/0

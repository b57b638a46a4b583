# Sourced by scripts/kube.sh: the node's network namespace and the link to it.
# containerd, kubelet, kube-proxy and CoreDNS live in the namespace: bridges, addresses and iptables rules of two
# clusters do not meet, and removing the namespace removes them all. From this machine pods and services are reached
# through routes; etcd and the API stay outside, so that cutting the link cuts the node and not the tests.

# Not `ip netns exec`: that mounts a new /sys, and the cgroups are gone.
node_prefix() { in_node=(nsenter "--net=/run/netns/$netns"); }

network_up() {
  node_prefix
  local owner
  owner=$(cat "/sys/class/net/$link/ifalias" 2>/dev/null || true)
  [ -z "$owner" ] || [ "$owner" = "$dir" ] ||
    fail "network $link belongs to the cluster in $owner; end that one first, or remove $dir and start again to get another slot"
  if ! "${in_node[@]}" true 2>/dev/null; then
    # A machine that was switched off may have left the name without the namespace.
    rm -f "/run/netns/$netns"
    ip link delete "$link" 2>/dev/null || true
    ip netns add "$netns"
  fi
  ip link show "$link" >/dev/null 2>&1 || ip link add "$link" type veth peer name up0 netns "$netns"
  ip link set "$link" alias "$dir"
  ip address replace "$host_ip/30" dev "$link"
  ip link set "$link" up
  "${in_node[@]}" ip link set lo up
  "${in_node[@]}" ip address replace "$node_ip/30" dev up0
  "${in_node[@]}" ip link set up0 up
  "${in_node[@]}" ip route replace default via "$host_ip"
  "${in_node[@]}" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  ip route replace "$pods" via "$node_ip"
  ip route replace "$services" via "$node_ip"
  network_restore
}

network_down() {
  ip netns delete "$netns" 2>/dev/null || rm -f "/run/netns/$netns"
  ip link delete "$link" 2>/dev/null || true
}

# Packets vanish, as on a broken wire: nobody gets a refusal.
network_drop() {
  node_prefix
  network_is_dropped && return
  "${in_node[@]}" iptables -w -I INPUT 1 -i up0 -m comment --comment slipway-drop -j DROP
  "${in_node[@]}" iptables -w -I OUTPUT 1 -o up0 -m comment --comment slipway-drop -j DROP
  "${in_node[@]}" iptables -w -I FORWARD 1 -i up0 -m comment --comment slipway-drop -j DROP
  "${in_node[@]}" iptables -w -I FORWARD 1 -o up0 -m comment --comment slipway-drop -j DROP
}

network_is_dropped() {
  node_prefix
  "${in_node[@]}" iptables -w -S 2>/dev/null | grep -q slipway-drop
}

network_restore() {
  node_prefix
  local rule
  # One at a time: kube-proxy may change the table in between.
  while rule=$("${in_node[@]}" iptables -w -S 2>/dev/null | grep -m1 slipway-drop); do
    # shellcheck disable=SC2086
    "${in_node[@]}" iptables -w -D ${rule#-A } || true
  done
}

# Sourced by scripts/kube.sh: what goes wrong with clusters, on demand.

fault() {
  must_be_root
  take_lock
  [ -e "$dir/slot" ] || fail "there is no cluster $name; NAME=$name make kube-up starts it"
  open_slot
  kubernetes=$cache/kubernetes-$kubernetes_version/bin
  case $1 in
    apiserver-restart)
      stop apiserver TERM 10
      start_apiserver
      wait_for apiserver 300 "the API being ready again" api_is_ready
      ;;
    etcd-stop) stop etcd KILL 10 ;;
    etcd-start)
      start_etcd
      wait_for etcd 30 "etcd's answer" etcd_answers
      wait_for apiserver 300 "the API being ready again" api_is_ready
      ;;
    kubelet-pause) signal_kubelet STOP ;;
    kubelet-resume) signal_kubelet CONT ;;
    network-drop) network_drop ;;
    network-restore) network_restore ;;
    *) fail "there is no fault $1; see scripts/kube.sh help" ;;
  esac
}

signal_kubelet() {
  alive kubelet || fail "cluster $name has no kubelet that runs; NAME=$name make kube-up starts it"
  kill -"$1" "$(pid_of kubelet)"
}

/* A program that says what it sees: who it is, what it may do, what it can reach. `testkit::inside` compiles it with
   the path of a file that must not be read and a port that must not be reached, and puts it in place of a tool. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;
static char report[1 << 20];
static size_t length;

static void put(const char *text) {
  size_t more = strlen(text);
  if (length + more + 1 < sizeof report) { memcpy(report + length, text, more + 1); length += more; }
}
static void quoted(const char *text) {
  put("\"");
  for (; *text; text++) {
    char one[8];
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') snprintf(one, sizeof one, "\\%c", c);
    else if (c < 32 || c > 126) snprintf(one, sizeof one, "\\u%04x", c);
    else snprintf(one, sizeof one, "%c", c);
    put(one);
  }
  put("\"");
}
static void key(const char *name) { if (length > 1) put(","); quoted(name); put(":"); }
static void number(const char *name, long long value) { char n[32]; key(name); snprintf(n, sizeof n, "%lld", value); put(n); }
/* 0: it was possible; otherwise the error's number. */
static void attempt(const char *name, long answer) { number(name, answer < 0 ? errno : 0); }
static void list(const char *name, char **texts) {
  key(name); put("[");
  for (int i = 0; texts[i]; i++) { if (i) put(","); quoted(texts[i]); }
  put("]");
}
static void folder(const char *name, const char *path) {
  DIR *open = opendir(path); struct dirent *entry; int first = 1;
  key(name); put("[");
  while (open && (entry = readdir(open))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (!first) put(",");
    first = 0; quoted(entry->d_name);
  }
  put("]");
  if (open) closedir(open);
}
static int reach(int family) {
  int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), failed;
  if (s < 0) return -1;
  if (family == AF_INET) {
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    failed = connect(s, (void *)&to, sizeof to);
  } else {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    snprintf(to.sun_path, sizeof to.sun_path, "%s", CANARY ".socket");
    failed = connect(s, (void *)&to, sizeof to);
  }
  int kept = errno; close(s); errno = kept;
  return failed;
}
static int make(const char *path) { int f = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600); if (f >= 0) { close(f); unlink(path); } return f; }
static int save(const char *where) {
  char path[4096];
  if (!where) return 0;
  snprintf(path, sizeof path, "%s/inside.json", where);
  int f = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (f < 0) return 0;
  if (write(f, report, length) < 0) { }
  close(f);
  return 1;
}
int main(int argc, char **argv) {
  put("{");
  number("uid", getuid()); number("euid", geteuid()); number("gid", getgid()); number("groups", getgroups(0, 0));
  struct { unsigned version; int pid; } head = { 0x20080522, 0 };
  unsigned caps[6] = { 0 };
  syscall(SYS_capget, &head, caps);
  number("cap_effective", caps[0] | (long long)caps[3] << 32);
  number("cap_permitted", caps[1] | (long long)caps[4] << 32);
  number("cap_inheritable", caps[2] | (long long)caps[5] << 32);
  int bound = 0;
  for (int c = 0; c < 64; c++) if (prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1) bound++;
  number("cap_bounding", bound);
  number("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  number("seccomp", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
  key("descriptors"); put("[");
  for (int f = 3, first = 1; f < 4096; f++) if (fcntl(f, F_GETFD) >= 0) { char n[16]; snprintf(n, sizeof n, first ? "%d" : ",%d", f); put(n); first = 0; }
  put("]");
  list("environment", environ); list("arguments", argv);
  char text[4096]; key("folder"); quoted(getcwd(text, sizeof text) ? text : "");
  key("host"); gethostname(text, sizeof text); quoted(text);
  folder("root", "/"); folder("etc", "/etc"); folder("dev", "/dev"); folder("proc", "/proc"); folder("tmp", "/tmp");
  attempt("canary_read", open(CANARY, O_RDONLY | O_CLOEXEC));
  struct stat s; attempt("canary_stat", stat(CANARY, &s));
  attempt("shadow_read", open("/etc/shadow", O_RDONLY | O_CLOEXEC));
  attempt("write_root", make("/inside-was-here")); attempt("write_usr", make("/usr/inside-was-here")); attempt("write_etc", make("/etc/inside-was-here"));
  attempt("loopback", reach(AF_INET)); attempt("unix", reach(AF_UNIX));
  attempt("udp", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); attempt("raw", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1));
  attempt("packet", socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)); attempt("vsock", socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int up = 0, probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe >= 0) {
    struct ifconf all; char room[8192]; all.ifc_len = sizeof room; all.ifc_buf = room;
    if (!ioctl(probe, SIOCGIFCONF, &all)) up = all.ifc_len / (int)sizeof(struct ifreq);
  }
  number("interfaces_with_address", up);
  int seen = 0;
  for (int pid = 1; pid < 40000; pid++) if (pid != getpid() && pid != getppid() && (kill(pid, 0) == 0 || errno == EPERM)) seen++;
  number("processes", seen); number("pid", getpid());
  attempt("unshare_user", unshare(CLONE_NEWUSER)); attempt("unshare_mount", unshare(CLONE_NEWNS));
  attempt("mount", mount("none", "/tmp", "tmpfs", 0, 0)); attempt("chroot", chroot("/"));
  attempt("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0)); attempt("setuid", setuid(0));
  attempt("mknod", mknod("/tmp/device", S_IFCHR | 0666, 0x101)); attempt("bpf", syscall(SYS_bpf, 0, 0, 0));
  attempt("io_uring", syscall(SYS_io_uring_setup, 1, 0)); attempt("keyctl", syscall(SYS_keyctl, 0, 0, 0));
  attempt("outlive", prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)); attempt("set_id", chmod("/tmp", 04777));
  struct rlimit l;
  getrlimit(RLIMIT_AS, &l); number("limit_memory", (long long)l.rlim_cur);
  getrlimit(RLIMIT_NPROC, &l); number("limit_processes", (long long)l.rlim_cur);
  getrlimit(RLIMIT_FSIZE, &l); number("limit_file", (long long)l.rlim_cur);
  getrlimit(RLIMIT_CORE, &l); number("limit_core", (long long)l.rlim_cur);
  put("}");
  /* To wherever it can: a renderer's output is an object, others leave a file where they may write. */
  static char inner[sizeof report];
  memcpy(inner, report, length + 1);
  if (!save(getenv("GIT_DIR"))) save(getenv("HOME"));
  save(".");
  if (argc > 2 && !strcmp(argv[1], "--status-fd")) {
    /* gpgv is heard through its status lines alone. */
    printf("[GNUPG:] GOODSIG x\n[GNUPG:] VALIDSIG ");
    for (char *c = inner; *c; c++) printf("%02x", (unsigned char)*c);
    printf(" PRIMARY\n");
    return 0;
  }
  length = 0;
  put("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"inside\"},\"data\":{\"report\":"); quoted(inner);
  /* The same where a credential program would have its token. */
  put("},\"status\":{\"token\":"); quoted(inner); put("}}\n");
  fputs(report, stdout);
  fprintf(stderr, "inside: %s\n", inner);
  return EXIT;
}

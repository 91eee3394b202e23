/* `git-agent-undo`: have the command server run this command, as if it ran here.
 *
 * It does what gitshadow/ipc/command_client.py does, which describes the messages, without
 * Python's start. Whatever is unusual it leaves to `git-agent-undo-direct` beside it, which is
 * Python: until the server's process is told to begin, and after that only a hook whose process was
 * killed, because a payload that comes twice is recognized.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef GITSHADOW_VERSION
#error "GITSHADOW_VERSION has to be the version of the package"
#endif
/* A server greets with this, and with marks of its Python; command_client.py has the same number. */
#define GREETING GITSHADOW_VERSION "-2 "

enum {
    STREAMS = 3,
    SENT_FDS = STREAMS + 1,
    MAX_FDS = 8,
    MAX_ANSWER = 1 << 16,
    MAX_REQUEST = 1 << 20,
    MAX_LINE = 1 << 12,
    PATH_SIZE = 4096,
    ANSWER_S = 1,
};

static const char DIRECT[] = "git-agent-undo-direct";
static const char GO[] = "go";
static const int FORWARDED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

extern char **environ;

/* The process that runs the command, for the handlers of signals. */
static volatile pid_t worker;

/* The program and where it is. */

struct place {
    char program[PATH_SIZE];   /* as it was called; links stay links */
    char directory[PATH_SIZE]; /* of the program itself */
    char server[PATH_SIZE];    /* the directory of the socket; empty where none can be named */
};

static bool format(char *into, const char *pattern, const char *one, const char *two) {
    int length = snprintf(into, PATH_SIZE, pattern, one, two);
    return length >= 0 && length < PATH_SIZE;
}

/* Return a directory that the environment names; a relative one counts as none. */
static const char *named_directory(const char *name) {
    const char *value = getenv(name);
    return value && *value == '/' ? value : NULL;
}

/* Name the directory of the server's socket: that of this user, installation and namespace. */
static void find_server(struct place *place) {
    const char *parent = named_directory("XDG_RUNTIME_DIR");
    const char *home = named_directory("HOME");
    char usual[PATH_SIZE], marks[128];
    struct stat bin, world;
    if (!parent)
        parent = named_directory("XDG_STATE_HOME");
    if (!parent && home && format(usual, "%s%s", home, "/.local/state"))
        parent = usual;
    if (!parent || stat(place->directory, &bin) || stat("/proc/self/ns/mnt", &world))
        return;
    snprintf(marks, sizeof marks, "%jx.%jx-%jx.%jx", (uintmax_t)bin.st_dev,
             (uintmax_t)bin.st_ino, (uintmax_t)world.st_dev, (uintmax_t)world.st_ino);
    if (!format(place->server, "%s/gitshadow/%s", parent, marks))
        place->server[0] = '\0';
}

static bool find_place(struct place *place, const char *called) {
    const char *executed = (const char *)getauxval(AT_EXECFN);
    char real[PATH_SIZE];
    place->server[0] = '\0';
    if (!format(place->program, "%s%s", executed ? executed : called, ""))
        return false;
    if (!realpath(place->program, real))
        return false;
    *strrchr(real, '/') = '\0';
    strcpy(place->directory, real);
    find_server(place);
    return true;
}

static bool is_hook(char **argv) {
    return argv[0] && argv[1] && !strcmp(argv[1], "hook");
}

/* Run the command in this process, in Python: `DIRECT up|none PROGRAM WORD…`. */
static int run_directly(const struct place *place, bool is_up, int argc, char **argv) {
    char program[PATH_SIZE];
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (words && format(program, "%s/%s", place->directory, DIRECT)) {
        words[0] = program;
        words[1] = is_up ? "up" : "none";
        words[2] = (char *)place->program;
        for (int n = 1; n < argc; n++)
            words[n + 2] = argv[n];
        /* That of the Python in an agent; ours would end with it before it runs a hook. */
        if (is_hook(argv))
            unsetenv("PYTHONHOME");
        execv(program, words);
    }
    /* An agent must never be stopped by a hook that is broken. */
    if (is_hook(argv))
        return 0;
    fprintf(stderr, "error: cannot run %s: %s; install gitshadow again\n", DIRECT,
            strerror(errno));
    return 127;
}

/* The connection. */

/* Open what the caller has closed of the streams, as nowhere: another file would get its number. */
static void open_streams(void) {
    for (int fd = 0; fd < STREAMS; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return;
}

static void limit_waiting(int server, int seconds) {
    struct timeval limit = {.tv_sec = seconds};
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Connect to a server of our own user; -1 where there is none. */
static int connect_server(const struct place *place) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int directory = open(place->server, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return -1;
    int server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* This way the path is never too long for an address. */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/sock", directory);
    /* It does not wait where too many do. */
    bool connected = server >= 0 &&
                     !connect(server, (struct sockaddr *)&address, sizeof address) &&
                     !getsockopt(server, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
                     peer.uid == geteuid() && !fcntl(server, F_SETFL, 0);
    close(directory);
    if (connected)
        limit_waiting(server, ANSWER_S);
    else if (server >= 0)
        close(server);
    return connected ? server : -1;
}

/* Receive one message as text, with the open files that came with it; -1 if the other end is gone. */
static ssize_t receive(int server, char *text, int *fds, size_t *count) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = MAX_ANSWER - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t length;
    *count = 0;
    do {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        length = recvmsg(server, &message, MSG_CMSG_CLOEXEC);
    } while (length < 0 && errno == EINTR);
    if (length < 0)
        return -1;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one))
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS) {
            *count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(one), *count * sizeof(int));
        }
    text[length] = '\0';
    return length;
}

static bool send_request(int server, const char *body, size_t size, const int *fds) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(SENT_FDS * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)body, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(SENT_FDS * sizeof(int));
    memcpy(CMSG_DATA(header), fds, SENT_FDS * sizeof(int));
    return sendmsg(server, &message, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Return what is wanted, the number of words, the words and the environment, each after a zero byte. */
static char *make_request(const struct place *place, int argc, char **argv, size_t *size) {
    size_t total = 32 + strlen(place->program);
    for (int n = 1; n < argc; n++)
        total += strlen(argv[n]) + 1;
    for (char **one = environ; *one; one++)
        total += strlen(*one) + 1;
    char *body = total < MAX_REQUEST ? malloc(total) : NULL;
    if (!body)
        return NULL;
    char *end = body + sprintf(body, "command%c%d", 0, argc) + 1;
    end = stpcpy(end, place->program) + 1;
    for (int n = 1; n < argc; n++)
        end = stpcpy(end, argv[n]) + 1;
    for (char **one = environ; *one; one++)
        end = stpcpy(end, *one) + 1;
    *size = (size_t)(end - body) - 1;
    return body;
}

/* Receive the next word of a process that has not begun; false where it does not come. The pipe
 * that comes with the last one stays open until we end, which ends the command. */
static bool receive_in_time(int server, const struct place *place, char *answer) {
    int unused[MAX_FDS];
    size_t count;
    char path[PATH_SIZE];
    if (receive(server, answer, unused, &count) >= 0)
        return true;
    /* It hangs. Without its socket it ends as soon as it goes on, and nobody waits again. */
    if (errno == EAGAIN && format(path, "%s/%s", place->server, "sock"))
        unlink(path);
    return false;
}

/* Give the command to a process of the server; return its pid, 0 where none takes it. */
static pid_t hand_over(int server, const struct place *place, int argc, char **argv) {
    static char answer[MAX_ANSWER];
    int here;
    size_t size;
    /* A message that nobody takes would keep our streams open for as long as it lies there. */
    if (!receive_in_time(server, place, answer) ||
        strncmp(answer, GREETING, sizeof GREETING - 1))
        return 0;
    char *body = make_request(place, argc, argv, &size);
    if (!body || (here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return 0;
    bool sent = send_request(server, body, size, (int[]){0, 1, 2, here});
    close(here);
    free(body);
    if (!sent || !receive_in_time(server, place, answer))
        return 0;
    return strncmp(answer, "ready ", 6) ? 0 : (pid_t)atol(answer + 6);
}

/* Signals and the terminal: the command runs in a process group of its own, and what the terminal
 * sends to our group is passed on to that one. Only this process reads the terminal. */

static void handle(int number, void (*act)(int)) {
    struct sigaction action = {.sa_handler = act}, former;
    sigemptyset(&action.sa_mask);
    /* What the caller ignores stays ignored, as nohup(1) wants it. */
    if (!sigaction(number, NULL, &former) && former.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

static void forward(int number) {
    int kept = errno;
    kill(-worker, number);
    errno = kept;
}

static void stop(int number) {
    int kept = errno;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    /* That group is an orphaned one, which no stop of a terminal reaches; setpgid(2). */
    kill(-worker, SIGSTOP);
    signal(number, SIG_DFL);
    kill(getpid(), number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    /* Ours may be an orphaned one, too, which nobody has to continue. */
    kill(-worker, SIGCONT);
    handle(number, stop);
    errno = kept;
}

static bool in_background(void) {
    pid_t foreground = tcgetpgrp(STDIN_FILENO);
    return foreground >= 0 && foreground != getpgrp();
}

static bool tell(int server, const char *text, size_t size) {
    return send(server, text, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Read the terminal for the command, unless that has more to say; return whether it is there. */
static bool read_terminal(int server) {
    static char line[MAX_ANSWER];
    struct pollfd both[] = {{server, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    ssize_t length;
    for (;;) {
        /* In the background nothing is waited for: to read stops us, as it stops any process. */
        if (!in_background()) {
            if (poll(both, 2, -1) < 0 && errno == EINTR)
                continue;
            if (both[0].revents)
                return true;
        }
        length = read(STDIN_FILENO, line + sizeof GO - 1, MAX_LINE);
        if (length >= 0 || errno != EINTR) {
            memcpy(line, GO, sizeof GO - 1);
            return tell(server, line, sizeof GO - 1 + (size_t)(length < 0 ? 0 : length));
        }
    }
}

static void end_by(int number) {
    if (number != SIGKILL)
        signal(number, SIG_DFL);
    kill(getpid(), number);
}

/* Run a pager here, where the terminal's signals reach it. */
static void page(char *command, const int *fds, size_t count) {
    char *shell[] = {"/bin/sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    pid_t pager;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    if (count)
        posix_spawn_file_actions_adddup2(&actions, fds[0], STDIN_FILENO);
    bool started = !posix_spawn(&pager, shell[0], &actions, &attributes, shell, environ);
    for (size_t n = 0; n < count; n++)
        close(fds[n]);
    while (started && waitpid(pager, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* Have the command begin, and wait for its end; return its exit code, -1 to run it here. */
static int wait_for_end(int server, char **argv) {
    static char answer[MAX_ANSWER];
    int fds[MAX_FDS];
    size_t count;
    for (size_t n = 0; n < sizeof FORWARDED / sizeof *FORWARDED; n++)
        handle(FORWARDED[n], forward);
    handle(SIGTSTP, stop);
    handle(SIGCONT, forward);
    limit_waiting(server, 0);
    bool lives = tell(server, GO, sizeof GO - 1);
    while (lives && receive(server, answer, fds, &count) > 0) {
        char *rest = strchr(answer, ' ');
        rest = rest ? rest + 1 : answer + strlen(answer);
        if (!strncmp(answer, "exit ", 5))
            return atoi(rest);
        if (!strncmp(answer, "signal ", 7)) {
            if (is_hook(argv)) /* an agent goes on; one of FORWARDED may be its own */
                return atoi(rest) == SIGKILL ? -1 : 0;
            end_by(atoi(rest));
        } else if (!strncmp(answer, "pager ", 6)) {
            page(rest, fds, count);
            lives = tell(server, GO, sizeof GO - 1);
        } else if (!strcmp(answer, "read")) {
            lives = read_terminal(server);
        } else {
            break;
        }
    }
    if (is_hook(argv))
        return -1;
    fputs("error: the process that ran this command was killed\n", stderr);
    return 1;
}

static bool is_off(void) {
    const char *value = getenv("GITSHADOW_SERVER");
    return value && !strcasecmp(value, "off");
}

int main(int argc, char **argv) {
    static struct place place;
    open_streams();
    if (argc < 1 || !find_place(&place, argv[0])) {
        fputs("error: cannot find the program's own directory\n", stderr);
        return argc > 0 && is_hook(argv) ? 0 : 127;
    }
    int server = is_off() || !*place.server ? -1 : connect_server(&place);
    worker = server < 0 ? 0 : hand_over(server, &place, argc, argv);
    int code = worker > 0 ? wait_for_end(server, argv) : -1;
    if (code >= 0)
        return code;
    if (server >= 0)
        close(server);
    return run_directly(&place, server >= 0 || is_off(), argc, argv);
}

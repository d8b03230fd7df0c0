/* A machine that a test controls, preloaded into a node. The test writes two words into a shared
 * file: nanoseconds by which the wall clock is ahead, and a word that stalls syncs until it is 0:
 * with N + 1 in it those after the process's first N. Where the environment names a directory, only
 * the syncs of files below it stall. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;

/* The words of the file: the wall clock's lead in nanoseconds, and whether the disk stalls. */
static volatile const int64_t *words;

__attribute__((constructor)) static void map_words(void)
{
	const char *path = getenv("WEIR_TEST_MACHINE");
	int file = path ? open(path, O_RDONLY) : -1;
	if (file < 0)
		return;
	void *mapped = mmap(NULL, 2 * sizeof *words, PROT_READ, MAP_SHARED, file, 0);
	if (mapped != MAP_FAILED)
		words = mapped;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, at);
	if (!failed && clock == CLOCK_REALTIME && words) {
		int64_t now = at->tv_sec * SECOND + at->tv_nsec + words[0];
		at->tv_sec = now / SECOND;
		at->tv_nsec = now % SECOND;
	}
	return failed;
}

static int may_stall(int file)
{
	const char *dir = getenv("WEIR_TEST_STALLS_IN");
	char link[64], path[4096];
	if (!dir)
		return 1;
	snprintf(link, sizeof link, "/proc/self/fd/%d", file);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return strncmp(path, dir, strlen(dir)) == 0;
}

int fdatasync(int file)
{
	static atomic_long syncs;
	int64_t before = atomic_fetch_add(&syncs, 1);
	while (words && words[1] && before >= words[1] - 1 && may_stall(file))
		usleep(1000);
	return (int)syscall(SYS_fdatasync, file);
}

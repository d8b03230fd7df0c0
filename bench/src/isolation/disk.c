/* A disk that stalls, preloaded into a node: while the word in the file that WEIR_BENCH_DISK names
 * is not 0, writes to files and syncs wait. Sockets and reads go on. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile const int64_t *word;

__attribute__((constructor)) static void map_word(void)
{
	const char *path = getenv("WEIR_BENCH_DISK");
	int file = path ? open(path, O_RDONLY) : -1;
	if (file < 0)
		return;
	void *mapped = mmap(NULL, sizeof *word, PROT_READ, MAP_SHARED, file, 0);
	if (mapped != MAP_FAILED)
		word = mapped;
	close(file);
}

static void wait_for_the_disk(void)
{
	while (word && *word)
		usleep(500);
}

ssize_t pwrite64(int file, const void *bytes, size_t len, off64_t at)
{
	wait_for_the_disk();
	return syscall(SYS_pwrite64, file, bytes, len, at);
}

ssize_t pwrite(int file, const void *bytes, size_t len, off_t at)
{
	return pwrite64(file, bytes, len, at);
}

int fdatasync(int file)
{
	wait_for_the_disk();
	return (int)syscall(SYS_fdatasync, file);
}

int fsync(int file)
{
	wait_for_the_disk();
	return (int)syscall(SYS_fsync, file);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The few types of the kernel that our programs look at, and the few functions that they call.
 *
 * Only names matter: where a field is, is put right for the running kernel when a program is
 * loaded. A type whose name ends with three underscores and a word is the same type as it is in
 * some kernels only.
 */
#ifndef WALRAS_KERNEL_H
#define WALRAS_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define RELOCATED __attribute__((preserve_access_index))

/* Whether the running kernel has a field. */
#define HAS_FIELD(field) __builtin_preserve_field_info(field, 2)

/* Maps are described by the types of their fields. */
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name

enum {
	MAP_PERCPU_HASH = 5,
	MAP_PERCPU_ARRAY = 6,
};

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*now_ns)(void) = (void *)5;

#define ADD_ONLY_IF_NEW 1

/* What a request is: the lowest byte of its flags. */
#define REQUEST_KIND 0xff
#define REQUEST_WRITE 1

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
} RELOCATED;

struct kernfs_node {
	u64 id;
} RELOCATED;

struct cgroup {
	struct kernfs_node *kn;
} RELOCATED;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} RELOCATED;

struct task_group {
	struct cgroup_subsys_state css;
} RELOCATED;

struct task_struct {
	s32 pid;
	struct sched_info sched_info;
	struct task_group *sched_task_group;
} RELOCATED;

struct gendisk {
	int major;
	int first_minor;
} RELOCATED;

struct request_queue {
	struct gendisk *disk;
} RELOCATED;

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 start_time_ns;
} RELOCATED;

/* Before 5.17, a request itself knew its disk. */
struct request___old {
	struct gendisk *rq_disk;
} RELOCATED;

#endif

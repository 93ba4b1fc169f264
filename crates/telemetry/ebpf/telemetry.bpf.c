// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What only the kernel can count: how long tasks wait for a CPU, how long disks take, and why
 * packets are thrown away.
 *
 * Everything is counted for each CPU apart, so that nobody waits for anybody; user space adds up.
 * Buckets are those of `src/histogram.rs`, four to each doubling. `cargo xtask bpf` compiles this
 * file; the object is committed, so that nobody needs a compiler for it.
 */
#include "kernel.h"

#define BUCKETS 140
#define REASONS 256
#define DISKS 256
#define GROUPS 4096

/* Set before loading: whether waits are counted for each control group as well. */
const volatile u32 per_group = 0;

struct histogram {
	u64 count;
	u64 sum_ns;
	u64 buckets[BUCKETS];
};

/* One for each CPU. */
struct scheduling {
	u64 switches;
	struct histogram waits;
	/* The task that runs now, and what it had waited in its life before it waited for this run. */
	u64 running_pid;
	u64 waited_before_ns;
};

struct group {
	u64 runs;
	u64 waited_ns;
};

struct {
	MAP_UINT(type, MAP_PERCPU_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct scheduling);
} scheduling SECTION(".maps");

/* By the number of a group of the cpu controller, which is that of its folder. */
struct {
	MAP_UINT(type, MAP_PERCPU_HASH);
	MAP_UINT(max_entries, GROUPS);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, struct group);
} groups SECTION(".maps");

/* By the number of a disk, as the kernel writes it inside: major << 20 | minor. */
struct {
	MAP_UINT(type, MAP_PERCPU_HASH);
	MAP_UINT(max_entries, DISKS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct histogram);
} disks SECTION(".maps");

/* By the kernel's number of a reason; the last one is for all that are larger. */
struct {
	MAP_UINT(type, MAP_PERCPU_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64[REASONS]);
} drops SECTION(".maps");

/* What a new disk begins with: too large for the stack. */
static const struct histogram nothing;

INLINE u32 log2_of(u64 value)
{
	u32 log = 0;

	if (value >> 32) {
		value >>= 32;
		log += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log += 2;
	}
	return log + (u32)(value >> 1);
}

INLINE u32 bucket_of(u64 ns)
{
	u32 exponent, bucket;

	if (ns < 4)
		return ns;
	exponent = log2_of(ns);
	bucket = (exponent - 1) * 4 + ((ns >> (exponent - 2)) & 3);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

INLINE void note(struct histogram *histogram, u64 ns)
{
	u32 bucket = bucket_of(ns);

	histogram->count++;
	histogram->sum_ns += ns;
	/* The verifier does not remember what bucket_of promises. */
	if (bucket < BUCKETS)
		histogram->buckets[bucket]++;
}

INLINE void note_group(struct task_struct *task, u64 ns)
{
	struct group first = { .runs = 1, .waited_ns = ns };
	struct group *group;
	u64 number;

	if (!HAS_FIELD(task->sched_task_group))
		return;
	number = task->sched_task_group->css.cgroup->kn->id;
	group = map_lookup(&groups, &number);
	if (group) {
		group->runs++;
		group->waited_ns += ns;
	} else {
		map_update(&groups, &number, &first, ADD_ONLY_IF_NEW);
	}
}

/*
 * The kernel counts in `sched_info` how long a task has waited in its life. This tracepoint comes
 * before it adds the wait of `next`, so what is there now is what it had before. When the same task
 * leaves this CPU, the difference is how long it waited for the run that ends. A task that was
 * moved from one CPU's queue to another's while it waited counts with its wait in the last one.
 */
SECTION("tp_btf/sched_switch")
int on_switch(u64 *context)
{
	struct task_struct *previous = (void *)context[1];
	struct task_struct *next = (void *)context[2];
	struct scheduling *here;
	u32 only = 0;

	here = map_lookup(&scheduling, &only);
	if (!here)
		return 0;
	here->switches++;
	if (previous->pid && here->running_pid == (u64)previous->pid) {
		u64 waited = previous->sched_info.run_delay - here->waited_before_ns;

		note(&here->waits, waited);
		if (per_group)
			note_group(previous, waited);
	}
	/* The idle task has the number 0 and never waits. */
	here->running_pid = next->pid;
	here->waited_before_ns = next->sched_info.run_delay;
	return 0;
}

SECTION("tp_btf/block_rq_complete")
int on_complete(u64 *context)
{
	struct request *request = (void *)context[0];
	u32 bytes = context[2];
	struct histogram *histogram;
	struct gendisk *disk;
	u64 started = request->start_time_ns;
	u32 number;

	/* Reads and writes, as in /proc/diskstats: not what empties caches or forgets blocks. */
	if ((request->cmd_flags & REQUEST_KIND) > REQUEST_WRITE)
		return 0;
	/* Without a start nobody measures it; without all of its bytes it is not at its end. */
	if (!started || bytes < request->__data_len)
		return 0;
	if (HAS_FIELD(request->q->disk))
		disk = request->q->disk;
	else
		disk = ((struct request___old *)request)->rq_disk;
	if (!disk)
		return 0;
	number = (u32)disk->major << 20 | (u32)disk->first_minor;
	histogram = map_lookup(&disks, &number);
	if (!histogram) {
		map_update(&disks, &number, &nothing, ADD_ONLY_IF_NEW);
		histogram = map_lookup(&disks, &number);
	}
	if (histogram)
		note(histogram, now_ns() - started);
	return 0;
}

SECTION("tp_btf/kfree_skb")
int on_drop(u64 *context)
{
	u64 reason = (u32)context[2];
	u64 *reasons;
	u32 only = 0;

	reasons = map_lookup(&drops, &only);
	if (!reasons)
		return 0;
	if (reason >= REASONS)
		reason = REASONS - 1;
	reasons[reason]++;
	return 0;
}

char licence[] SECTION("license") = "Dual MIT/GPL";

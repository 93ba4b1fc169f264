//! How long reading one file of a cgroup takes, on files as a busy node has them.

use divan::{Bencher, black_box};
use walras_core::parse;

fn main() {
    divan::main();
}

const CPU_STAT_V2: &[u8] = b"usage_usec 83912734410\nuser_usec 61023394812\nsystem_usec \
22889339598\nnice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 1843912\nnr_throttled 40213\n\
throttled_usec 2918374655\nnr_bursts 120\nburst_usec 482911\n";

const CPU_STAT_V1: &[u8] = b"nr_periods 1843912\nnr_throttled 40213\nthrottled_time \
2918374655000\n";

const PRESSURE: &[u8] = b"some avg10=2.04 avg60=1.18 avg300=0.62 total=1839201123\n\
full avg10=0.00 avg60=0.00 avg300=0.00 total=92011\n";

const MEMORY_EVENTS: &[u8] = b"low 0\nhigh 12\nmax 840\noom 1\noom_kill 1\noom_group_kill 0\n";

/// A `memory.stat` has some forty keys, of which few matter.
const MEMORY_STAT: &[u8] = b"anon 734003200\nfile 1288490188\nkernel 45088768\nkernel_stack \
3014656\npagetables 9437184\nsec_pagetables 0\npercpu 119808\nsock 20480\nvmalloc 12288\nshmem \
4096\nzswap 0\nzswapped 0\nfile_mapped 219676672\nfile_dirty 1216512\nfile_writeback 0\nswapcached \
0\nanon_thp 16777216\nfile_thp 0\nshmem_thp 0\ninactive_anon 733839360\nactive_anon 131072\n\
inactive_file 897581056\nactive_file 390909132\nunevictable 0\nslab_reclaimable 28114944\n\
slab_unreclaimable 3342336\nslab 31457280\nworkingset_refault_anon 0\nworkingset_refault_file \
19282\nworkingset_activate_anon 0\nworkingset_activate_file 8211\nworkingset_restore_anon 0\n\
workingset_restore_file 3011\nworkingset_nodereclaim 0\npgscan 91822\npgsteal 88172\npgscan_kswapd \
0\npgscan_direct 91822\npgsteal_kswapd 0\npgsteal_direct 88172\npgfault 81923771\npgmajfault \
1201\npgrefill 30192\npgactivate 20119\npgdeactivate 28819\npglazyfree 0\npglazyfreed 0\n";

#[divan::bench]
fn cpu_stat_v2(bencher: Bencher<'_, '_>) {
    bencher.bench(|| parse::cpu_stat_v2(black_box(CPU_STAT_V2)));
}

#[divan::bench]
fn cpu_stat_v1(bencher: Bencher<'_, '_>) {
    let usage: &[u8] = b"83912734410000\n";
    bencher.bench(|| parse::cpu_stat_v1(black_box(usage), black_box(CPU_STAT_V1)));
}

#[divan::bench]
fn cpu_max(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"150000 100000\n";
    bencher.bench(|| parse::cpu_max(black_box(text)));
}

#[divan::bench]
fn cpu_max_v1(bencher: Bencher<'_, '_>) {
    let (quota, period): (&[u8], &[u8]) = (b"150000\n", b"100000\n");
    bencher.bench(|| parse::cpu_max_v1(black_box(quota), black_box(period)));
}

#[divan::bench]
fn cpu_max_burst(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"150000\n";
    bencher.bench(|| parse::cpu_max_burst(black_box(text)));
}

#[divan::bench]
fn cpu_weight(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"79\n";
    bencher.bench(|| parse::cpu_weight(black_box(text)));
}

#[divan::bench]
fn cpu_shares(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"2048\n";
    bencher.bench(|| parse::cpu_shares(black_box(text)));
}

#[divan::bench]
fn cpu_pressure(bencher: Bencher<'_, '_>) {
    bencher.bench(|| parse::cpu_pressure(black_box(PRESSURE)));
}

#[divan::bench]
fn memory_pressure(bencher: Bencher<'_, '_>) {
    bencher.bench(|| parse::memory_pressure(black_box(PRESSURE)));
}

#[divan::bench]
fn memory_stat(bencher: Bencher<'_, '_>) {
    bencher.bench(|| parse::memory_stat(black_box(MEMORY_STAT)));
}

#[divan::bench]
fn memory_events(bencher: Bencher<'_, '_>) {
    bencher.bench(|| parse::memory_events(black_box(MEMORY_EVENTS)));
}

#[divan::bench]
fn memory_current(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"2067582976\n";
    bencher.bench(|| parse::memory_current(black_box(text)));
}

#[divan::bench]
fn memory_max(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"4294967296\n";
    bencher.bench(|| parse::memory_max(black_box(text)));
}

#[divan::bench]
fn quantity(bencher: Bencher<'_, '_>) {
    let text: &[u8] = b"1500m";
    bencher.bench(|| parse::quantity(black_box(text)));
}

//! The time of day, made up, so that two runs write the same bytes.
//!
//! clark-agent stamps tool results, nudges and trajectory records with the system's time and offers no way to set
//! it. So this program answers the system call itself: a function of an executable comes before the C library's.
//! How much time passes is said by tokio's paused clock, which jumps from timer to timer.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use tokio::time::Instant;

/// 2026-08-15 09:00:00 UTC.
const START: u64 = 1_786_784_400_000_000_000;

/// Between two neighbouring events in no time at all.
const TICK: u64 = 1_000;

static NOW: AtomicU64 = AtomicU64::new(START);
static CURTAIN: Mutex<Option<Instant>> = Mutex::new(None);

/// A scenario begins.
pub fn start() {
    *CURTAIN.lock().unwrap() = Some(Instant::now());
    NOW.store(START, Ordering::SeqCst);
}

/// Unix nanoseconds, later at every call.
pub fn tick() -> u64 {
    let began = CURTAIN.lock().unwrap().expect("a scenario runs");
    let passed = START + began.elapsed().as_nanos() as u64;
    let now = passed.max(NOW.load(Ordering::SeqCst) + TICK);
    NOW.store(now, Ordering::SeqCst);
    now
}

/// Unix milliseconds, as messages carry them.
pub fn milliseconds() -> u64 {
    tick() / 1_000_000
}

#[repr(C)]
pub struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

/// Takes the place of the C library's function of this name. Every clock shows the same time: nothing here needs
/// another one.
///
/// # Safety
/// `time` points to a timespec, as the system call demands.
#[no_mangle]
pub unsafe extern "C" fn clock_gettime(_clock: c_int, time: *mut Timespec) -> c_int {
    let now = NOW.load(Ordering::SeqCst);
    *time = Timespec {
        seconds: (now / 1_000_000_000) as c_long,
        nanoseconds: (now % 1_000_000_000) as c_long,
    };
    0
}

//! The real engine behind the C interface of a neutral benchmark of matching cores.
//!
//! The benchmark's harness loads this library, passes it messages one by one and takes the reports
//! from its own queue on another core. Each message becomes a command, each command is applied by
//! `weir_engine::Engine` as in a partition, each event becomes a report: no second book, no
//! look-ahead, no deferred work.
//!
//! INVARIANT: one venue per process, used by one thread at a time: the interface has no handle.

pub mod message;
pub mod venue;

use core::cell::UnsafeCell;
use core::ffi::c_void;

use message::{CancelMessage, ModifyMessage, NewMessage, Report, Transport};
use venue::{Reports, Venue};

/// The harness's queue.
struct Queue {
    // SAFETY: the harness's own function; `report` states why the call is sound.
    push: unsafe extern "C" fn(*mut c_void, *const Report) -> i32,
    handle: *mut c_void,
}

impl Reports for Queue {
    #[inline]
    fn report(&mut self, report: &Report) {
        // SAFETY: `engine_init` received this pair, valid until `engine_shutdown`; the queue copies
        // the report before it returns.
        while unsafe { (self.push)(self.handle, report) } == 0 {
            core::hint::spin_loop();
        }
    }
}

struct OpenVenue {
    venue: Venue,
    queue: Queue,
}

/// The static place of the venue, since the interface's calls carry no handle.
struct VenueCell(UnsafeCell<Option<Box<OpenVenue>>>);

// SAFETY: the interface is driven by one thread at a time, by its contract.
unsafe impl Sync for VenueCell {}

static VENUE: VenueCell = VenueCell(UnsafeCell::new(None));

/// # Safety
/// No other call of the interface is running, and `engine_init` came before.
#[inline]
unsafe fn open_venue<'a>() -> &'a mut OpenVenue {
    // SAFETY: the caller guarantees that no other reference into the place exists now.
    let open_venue = unsafe { &mut *VENUE.0.get() };
    open_venue.as_mut().expect("engine_init comes before all other calls")
}

/// Creates the venue, which reports to `handle` by `transport`. The nonce is unused.
///
/// # Safety
/// `transport` and `handle` are valid until `engine_shutdown`; calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_init(_: u64, transport: *const Transport, handle: *mut c_void) {
    // SAFETY: the caller passes a valid transport.
    let push = unsafe { (*transport).push };
    let open_venue = OpenVenue { venue: Venue::new(), queue: Queue { push, handle } };
    // SAFETY: no other call is running, by the interface's contract.
    unsafe { *VENUE.0.get() = Some(Box::new(open_venue)) };
}

/// Frees the venue.
///
/// # Safety
/// Calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_shutdown() {
    // SAFETY: no other call is running, by the interface's contract.
    unsafe { *VENUE.0.get() = None };
}

/// Handles a new order.
///
/// # Safety
/// `message` points to one; calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_new_order(message: *const NewMessage) {
    // SAFETY: as the caller promises.
    let (open_venue, message) = unsafe { (open_venue(), &*message) };
    open_venue.venue.new_order(message, &mut open_venue.queue);
}

/// Handles a cancel.
///
/// # Safety
/// `message` points to one; calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_cancel(message: *const CancelMessage) {
    // SAFETY: as the caller promises.
    let (open_venue, message) = unsafe { (open_venue(), &*message) };
    open_venue.venue.cancel(message, &mut open_venue.queue);
}

/// Handles a change of an order.
///
/// # Safety
/// `message` points to one; calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_modify(message: *const ModifyMessage) {
    // SAFETY: as the caller promises.
    let (open_venue, message) = unsafe { (open_venue(), &*message) };
    open_venue.venue.modify(message, &mut open_venue.queue);
}

/// Does nothing: no work is ever deferred.
#[unsafe(no_mangle)]
pub extern "C" fn engine_flush() {}

/// Returns the highest bid; `INT64_MIN` when there is none.
///
/// # Safety
/// Calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_query_best_bid() -> i64 {
    // SAFETY: as the caller promises.
    unsafe { open_venue() }.venue.best_price(0).unwrap_or(i64::MIN)
}

/// Returns the lowest offer; `INT64_MAX` when there is none.
///
/// # Safety
/// Calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_query_best_ask() -> i64 {
    // SAFETY: as the caller promises.
    unsafe { open_venue() }.venue.best_price(1).unwrap_or(i64::MAX)
}

/// Returns the open lots of a side (0 buys, 1 sells) at a price.
///
/// # Safety
/// Calls do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_query_depth_at(price: i64, side: u8) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { open_venue() }.venue.depth_at(price, side)
}

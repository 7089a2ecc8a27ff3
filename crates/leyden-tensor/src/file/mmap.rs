//! [`Mapping`]: a file mapped privately and read-only, and the SIGBUS handler that keeps the process
//! alive when the file shrinks under it.
//!
//! Reading a mapped page that lies beyond the end of its file, or that the disk cannot deliver,
//! raises SIGBUS and by default ends the process. Here the handler looks the address up among the
//! live mappings. If it belongs to one, the page is replaced by an anonymous page of zeros, the
//! mapping is marked as truncated and the read is repeated. If not, the signal goes to the handler
//! that was installed before.
//!
//! A handler may interrupt any thread anywhere, so it only reads atomics and calls the kernel. The
//! list of mappings is therefore a linked list whose nodes are never freed (they are reused), each
//! guarded by a version counter that is odd while the node changes.
#![expect(unsafe_code, reason = "mapping files and handling signals are calls into the system")]

#[cfg(not(unix))]
compile_error!("leyden maps model files with mmap and needs a Unix-like system");

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A file mapped into memory until it is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    node: &'static Node,
    file: File,
}

// SAFETY: the memory is read-only and private to this value, and the node consists of atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the whole of a regular file, whose length must not be 0.
    pub(super) fn new(file: &File, len: usize) -> io::Result<Mapping> {
        install_handler()?;
        let file = file.try_clone()?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { start, len, node: register(start.addr().get(), len), file })
    }

    /// Returns the bytes of the file. They become zeros where the file is truncated, but they stay
    /// readable.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping covers `len` readable bytes and lives as long as `self`. Other
        // processes can change a file that is mapped; that changes bytes, which have no invalid
        // values, and callers check what they read each time. Pages that vanish are replaced by the
        // handler.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns true if a page could not be read, or the file is shorter than it was: the missing part of a page whose
    /// beginning still exists reads as zeros and raises no signal.
    pub(super) fn truncated(&self) -> bool {
        let shorter = |len: u64| usize::try_from(len).is_ok_and(|len| len < self.len);
        self.node.truncated.load(Ordering::Acquire) || self.file.metadata().is_ok_and(|m| shorter(m.len()))
    }

    /// Returns the file system's metadata of the file.
    pub(super) fn file_metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Asks the kernel to read a range ahead.
    pub(super) fn advise_willneed(&self, range: &Range<usize>) {
        self.advise(range, libc::MADV_WILLNEED);
    }

    /// Frees a range's pages. Bytes beside the range on the first and last page are read again if needed.
    pub(super) fn advise_dontneed(&self, range: &Range<usize>) {
        self.advise(range, libc::MADV_DONTNEED);
    }

    fn advise(&self, range: &Range<usize>, advice: libc::c_int) {
        let from = range.start.min(self.len) & page_mask();
        let len = range.end.min(self.len).saturating_sub(from);
        if len > 0 {
            // SAFETY: `from` is below the length of the mapping.
            let start = unsafe { self.start.add(from) };
            // SAFETY: the range lies within the mapping, which is private and read-only, so that
            // neither piece of advice can change what is read. Refusal costs nothing but speed.
            unsafe { libc::madvise(start.as_ptr().cast(), len, advice) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unregister(self.node);
        // SAFETY: no reference into the mapping can be alive, since they borrow from `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn page_size() -> usize {
    // SAFETY: a plain query. It is also on the list of calls that a signal handler may make.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

/// Returns the mask that keeps the bits of an address or offset which select its page.
fn page_mask() -> usize {
    !page_size().saturating_sub(1)
}

/// A mapping as the handler reads it. `end` is 0 while the node is free.
#[derive(Debug, Default)]
struct Node {
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    truncated: AtomicBool,
    next: AtomicPtr<Node>,
}

impl Node {
    /// Changes the range; the caller holds the lock of [`LIST`].
    fn set(&self, start: usize, end: usize) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.truncated.store(false, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Returns true if the address is in the range. A node that is being changed belongs to a mapping that
    /// is not read yet or no longer, so it cannot be the one that faulted.
    fn contains(&self, address: usize) -> bool {
        let before = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        before.is_multiple_of(2)
            && before == self.version.load(Ordering::Relaxed)
            && (start..end).contains(&address)
    }
}

static HEAD: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());
/// Serialises changes of the list; the handler does not take it.
static LIST: Mutex<()> = Mutex::new(());

fn nodes() -> impl Iterator<Item = &'static Node> {
    let mut at = HEAD.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds only null and leaked nodes, which live for ever.
        let node: &'static Node = unsafe { at.as_ref() }?;
        at = node.next.load(Ordering::Acquire);
        Some(node)
    })
}

fn register(start: usize, len: usize) -> &'static Node {
    let _guard = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    let end = start.saturating_add(len);
    if let Some(free) = nodes().find(|node| node.end.load(Ordering::Relaxed) == 0) {
        free.set(start, end);
        return free;
    }
    let node: &'static Node = Box::leak(Box::default());
    node.set(start, end);
    node.next.store(HEAD.load(Ordering::Relaxed), Ordering::Relaxed);
    HEAD.store(ptr::from_ref(node).cast_mut(), Ordering::Release);
    node
}

fn unregister(node: &Node) {
    let _guard = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    node.set(0, 0);
}

/// The handler of SIGBUS before ours; set before our handler can run.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

fn install_handler() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    // SAFETY: `sigaction` is a C structure of integers for which all zeros is valid.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks for the present one, written to a live structure.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    PREVIOUS.get_or_init(|| previous);
    let mut action = previous;
    action.sa_sigaction = handler_address();
    // ONSTACK: the thread may have overflowed its own stack when a foreign fault arrives.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the three-argument signature that SA_SIGINFO announces and keeps to
    // calls that are allowed in a handler.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    *installed = true;
    Ok(())
}

type Handler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

#[expect(clippy::as_conversions, reason = "sigaction takes the address of a function as an integer")]
fn handler_address() -> usize {
    on_sigbus as Handler as usize
}

/// Handles SIGBUS: see the head of this file.
unsafe extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure to a handler installed with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    // Positive codes are faults; others were sent by a process and carry no address.
    if code > 0 {
        // SAFETY: a fault fills in the address.
        let address = unsafe { (*info).si_addr() }.addr();
        if let Some(node) = nodes().find(|node| node.contains(address))
            && replace_page(address)
        {
            node.truncated.store(true, Ordering::Release);
            return;
        }
    }
    // SAFETY: the arguments are passed on as they came.
    unsafe { pass_on(signal, code, info, context) };
}

/// Puts a page of zeros in place of the page of `address`. The interrupted code must find `errno` unchanged;
/// a system call writes it only on failure, after which the process ends anyway.
fn replace_page(address: usize) -> bool {
    let page = page_size();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let at = ptr::without_provenance_mut(address & page_mask());
    // SAFETY: the page belongs to a live mapping of ours, which is read-only; that its contents may
    // turn into zeros is what `Mapping::bytes` announces.
    let mapped = unsafe { libc::mmap(at, page, libc::PROT_READ, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Passes a signal that is not ours to the previous handler, or to the default action.
///
/// # Safety
/// The arguments are those of a running signal handler.
unsafe fn pass_on(
    signal: libc::c_int,
    code: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let previous = PREVIOUS.get().map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    let with_info = PREVIOUS.get().is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0);
    match previous {
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: restores the default action; the repeated fault then ends the process.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            if code <= 0 {
                // SAFETY: a signal that was sent is not repeated by itself; it is delivered on return.
                unsafe { libc::raise(signal) };
            }
        }
        address if with_info => {
            // SAFETY: the address was installed as a handler of three arguments.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(address) };
            // SAFETY: called as the kernel would have.
            unsafe { handler(signal, info, context) };
        }
        address => {
            type Plain = unsafe extern "C" fn(libc::c_int);
            // SAFETY: the address was installed as a handler of one argument.
            let handler = unsafe { std::mem::transmute::<usize, Plain>(address) };
            // SAFETY: called as the kernel would have.
            unsafe { handler(signal) };
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    const LEN: usize = 1 << 20;

    fn temporary(len: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; len]).unwrap();
        file
    }

    /// Runs one test of this module in a process of its own, which it may kill.
    fn in_child(test: &str) -> Option<ExitStatus> {
        if std::env::var_os("LEYDEN_TEST_CHILD").is_some() {
            return None;
        }
        let me = std::env::current_exe().unwrap();
        let name = format!("file::mmap::tests::{test}");
        // If the tests run under an emulator, so must the child.
        let runner = std::env::var("LEYDEN_TEST_RUNNER").unwrap_or_default();
        let mut words = runner.split_whitespace().map(OsString::from).chain([me.into_os_string()]);
        let mut child = Command::new(words.next().unwrap());
        child.args(words);
        child.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env("LEYDEN_TEST_CHILD", "1");
        Some(child.output().unwrap().status)
    }

    #[test]
    fn pages_of_a_truncated_file_read_as_zeros_and_are_reported() {
        let file = temporary(LEN);
        let mapping = Mapping::new(&file, LEN).unwrap();
        let other_file = temporary(LEN);
        let other = Mapping::new(&other_file, LEN).unwrap();
        assert_eq!(mapping.bytes()[LEN - 1], 7);
        assert!(!mapping.truncated());
        file.set_len(8192 * 4 + 100).unwrap();
        assert_eq!(mapping.bytes()[8192], 7, "what is left is still read");
        assert!(mapping.truncated(), "even before a page is missed");
        assert!(mapping.bytes()[LEN / 2..].iter().all(|&b| b == 0));
        assert!(mapping.truncated());
        assert!(!other.truncated() && other.bytes().iter().all(|&b| b == 7));
        // A new mapping reuses the node of an old one, without its mark.
        drop(mapping);
        let again = Mapping::new(&other_file, LEN).unwrap();
        assert!(!again.truncated());
    }

    #[test]
    fn a_cut_within_the_last_page_is_reported() {
        let file = temporary(LEN);
        let mapping = Mapping::new(&file, LEN).unwrap();
        file.set_len((1 << 20) - 1).unwrap();
        assert_eq!(mapping.bytes()[LEN - 1], 0, "without a signal");
        assert!(mapping.truncated());
        let longer = temporary(LEN);
        let mapping = Mapping::new(&longer, LEN).unwrap();
        longer.set_len(1 << 21).unwrap();
        assert!(!mapping.truncated());
    }

    #[test]
    fn many_threads_fault_at_once() {
        let file = temporary(LEN);
        let mapping = Mapping::new(&file, LEN).unwrap();
        file.set_len(0).unwrap();
        std::thread::scope(|scope| {
            for offset in 0..8 {
                let bytes = &mapping.bytes()[offset..];
                scope.spawn(move || assert!(bytes.iter().step_by(512).all(|&b| b == 0)));
            }
            // Meanwhile other mappings come and go.
            scope.spawn(|| {
                let file = temporary(4096);
                for _ in 0..200 {
                    let other = Mapping::new(&file, 4096).unwrap();
                    assert!(other.bytes().iter().all(|&b| b == 7) && !other.truncated());
                }
            });
        });
        assert!(mapping.truncated());
    }

    #[test]
    fn advice_changes_nothing_but_memory() {
        let file = temporary(LEN);
        let mapping = Mapping::new(&file, LEN).unwrap();
        let edge = LEN - 10..LEN;
        for range in [0..LEN, 5000..9000, 100..100, LEN..LEN * 2, edge] {
            mapping.advise_willneed(&range);
            mapping.advise_dontneed(&range);
        }
        assert!(mapping.bytes().iter().all(|&b| b == 7));
    }

    /// A fault that is not in a mapping of ours ends the process with SIGBUS as it would have.
    #[test]
    fn foreign_fault_still_kills() {
        if let Some(status) = in_child("foreign_fault_still_kills") {
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{status:?}");
            return;
        }
        let _mapping = Mapping::new(&temporary(LEN), LEN).unwrap();
        let file = temporary(LEN);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let foreign = unsafe {
            libc::mmap(ptr::null_mut(), LEN, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        assert_ne!(foreign, libc::MAP_FAILED);
        file.set_len(0).unwrap();
        // SAFETY: the address is mapped; reading it raises the signal under test.
        unsafe { ptr::read_volatile(foreign.cast::<u8>()) };
    }

    #[test]
    fn sent_signal_still_kills() {
        if let Some(status) = in_child("sent_signal_still_kills") {
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{status:?}");
            return;
        }
        // The standard library's own handler swallows the first signal that was sent.
        // SAFETY: restores the default action.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        let _mapping = Mapping::new(&temporary(LEN), LEN).unwrap();
        // SAFETY: raising a signal has no preconditions.
        unsafe { libc::raise(libc::SIGBUS) };
    }

    /// A handler that was there before gets the faults that are not ours, and only those.
    #[test]
    fn earlier_handler_is_called() {
        unsafe extern "C" fn exit_42(_: libc::c_int) {
            // SAFETY: `_exit` may be called in a handler.
            unsafe { libc::_exit(42) };
        }
        if let Some(status) = in_child("earlier_handler_is_called") {
            assert_eq!(status.code(), Some(42), "{status:?}");
            return;
        }
        type Plain = unsafe extern "C" fn(libc::c_int);
        #[expect(clippy::as_conversions, reason = "signal takes the address of a function as an integer")]
        let address = exit_42 as Plain as usize;
        // SAFETY: the handler only ends the process.
        unsafe { libc::signal(libc::SIGBUS, address) };
        let file = temporary(LEN);
        let mapping = Mapping::new(&file, LEN).unwrap();
        file.set_len(0).unwrap();
        assert!(mapping.bytes()[LEN / 2] == 0 && mapping.truncated());
        // SAFETY: raising a signal has no preconditions.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}

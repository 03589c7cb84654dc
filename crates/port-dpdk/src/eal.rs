//! DPDK's environment layer: once for a process, never ended.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

use port::PortError;

use crate::config::Config;
use crate::sys;

/// Started with huge pages or not; or why it did not start.
static STARTED: OnceLock<Result<bool, String>> = OnceLock::new();

/// Bytes of an mbuf without its buffer, and of what a mempool adds to it, with some to spare.
const MBUF_BYTES: u64 = 384;
/// What the layer and its drivers take beside mbufs, in MiB.
const SPARE_MIB: u64 = 128;

/// Starts the layer, if it has not been: in a thread of its own, as it binds its thread to a CPU. That thread and those
/// which the layer starts have no capability.
///
/// `slots`: packet buffers of the process.
///
/// # Errors
/// [`PortError::Device`]: why it does not start; it runs on other pages than these.
pub fn start(config: &Config, slots: u32) -> Result<(), PortError> {
    let arguments = arguments(config, slots);
    let begin = || {
        let thread = std::thread::Builder::new().name("weir-eal".into()).spawn(move || init(&arguments));
        let thread = thread.map_err(|error| error.to_string())?;
        thread.join().map_err(|_| "it panicked".to_owned())?.map(|()| config.huge)
    };
    let doing = || "starting DPDK's environment layer".to_owned();
    match STARTED.get_or_init(begin) {
        Ok(huge) if *huge == config.huge => Ok(()),
        Ok(huge) => {
            let why = format!("it runs on {} pages already", if *huge { "huge" } else { "plain" });
            let advice = "give all dpdk: ports the same pages=".to_owned();
            Err(PortError::Device { doing: doing(), why, advice })
        }
        Err(why) => {
            let advice = match config.huge {
                true => "reserve huge pages (sysctl vm.nr_hugepages), or leave pages=huge out",
                false => "check memory= and the limits of the process",
            };
            Err(PortError::Device { doing: doing(), why: why.clone(), advice: advice.to_owned() })
        }
    }
}

/// The command line: one logical core, no files, no other process, nothing probed but what ports name.
fn arguments(config: &Config, slots: u32) -> Vec<String> {
    let memory = config.memory.map_or(u64::from(slots) * MBUF_BYTES / (1 << 20) + SPARE_MIB, u64::from);
    let mut list: Vec<String> =
        ["weir", "--no-telemetry", "--iova-mode=va", "--log-level=*:error"].map(str::to_owned).into();
    list.push("--lcores".into());
    // All CPUs, so that threads which the layer starts are bound to none.
    list.push(format!("0@({})", cpus()));
    list.push("-m".into());
    list.push(memory.to_string());
    // No files either way; the layer knows two words for it.
    let pages: &[&str] = if config.huge { &["--in-memory"] } else { &["--no-huge", "--no-shconf"] };
    list.extend(pages.iter().map(|text| (*text).to_owned()));
    let has_pci = std::fs::read_dir("/sys/bus/pci/devices").is_ok_and(|mut devices| devices.next().is_some());
    if config.is_pci() || has_pci {
        // The list of allowed devices has only the host's bridge, which no driver takes: ports add theirs.
        list.extend(["-a".to_owned(), "0000:00:00.0".to_owned()]);
    } else {
        list.push("--no-pci".into());
    }
    list
}

/// CPUs this process may run on, as the layer writes them.
fn cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or("0", str::trim).to_owned()
}

fn init(arguments: &[String]) -> Result<(), String> {
    // SAFETY: plain calls, which the layer allows before it starts.
    let (built, runs) = unsafe { (sys::weir_built_for(), sys::weir_runs_with()) };
    if built != runs {
        let release = |release: u32| format!("{}.{:02}", release / 100, release % 100);
        let (built, runs) = (release(built), release(runs));
        return Err(format!(
            "this program was built for DPDK {built} and finds {runs}: set LD_LIBRARY_PATH to {built}'s"
        ));
    }
    let confined = confine::drop_capabilities(confine::Capabilities::NONE).and_then(|()| confine::no_new_privileges());
    confined.map_err(|error| error.to_string())?;
    let texts: Vec<CString> = arguments.iter().filter_map(|text| CString::new(text.as_str()).ok()).collect();
    let mut pointers: Vec<*mut c_char> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    // SAFETY: called once in a process (`STARTED`), before anything else of DPDK; `pointers` are the texts and a null, which
    // outlive the call. The layer parses copies: it may put the pointers, but not the texts, in another order.
    let failed = unsafe {
        sys::weir_log_keep();
        sys::weir_thread_shares_cpu();
        sys::rte_eal_init(texts.len() as i32, pointers.as_mut_ptr()) < 0
    };
    if failed {
        return Err(why(0));
    }
    // SAFETY: the layer has started; called once.
    match unsafe { sys::weir_ops_register() } {
        0 => Ok(()),
        code => Err(why(code)),
    }
}

/// The reason of a failure: what DPDK logged first, or the name of its error. `code`: negative, or 0 for the thread's.
pub fn why(code: i32) -> String {
    let mut line = [0u8; 512];
    // SAFETY: the shim writes a text with its end into `line`; names of errors are texts of the thread or static, read before
    // anything else is called.
    let (error, said) = unsafe {
        let error = if code == 0 { sys::weir_errno() } else { -code };
        sys::weir_log_take(line.as_mut_ptr().cast(), line.len());
        (error, CStr::from_ptr(sys::rte_strerror(error)).to_string_lossy().into_owned())
    };
    let logged = CStr::from_bytes_until_nul(&line).map(CStr::to_string_lossy).unwrap_or_default();
    // "EAL: Cannot open …", "rte_pmd_pcap: …", "function(): …"
    let logged = logged.trim();
    match (logged.is_empty(), error) {
        (true, _) => said,
        // Many functions have no other error than 1.
        (false, 0 | 1) => logged.to_owned(),
        (false, _) => format!("{logged} ({said})"),
    }
}

/// Forgets what was logged so far.
pub fn forget_log() {
    let mut line = [0u8; 2];
    // SAFETY: as in `why`.
    unsafe { sys::weir_log_take(line.as_mut_ptr().cast(), line.len()) };
}

/// A thread's place among those of DPDK.
struct Registered(bool);

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was registered and is ending.
            unsafe { sys::rte_thread_unregister() };
        }
    }
}

thread_local! {
    // SAFETY: ports exist after the layer has started; a thread is registered once. Without a place (there are 128) calls work
    // all the same: the mempool has no caches.
    static REGISTERED: Registered = Registered(unsafe { sys::rte_thread_register() } == 0);
}

/// Joins the calling thread to DPDK's.
#[inline]
pub fn join_thread() {
    // A thread that is ending has left.
    let _ = REGISTERED.try_with(|registered| registered.0);
}

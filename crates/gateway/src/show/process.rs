//! `weir show process`: what each thread of the gateway and of its helper may do.

use crate::privilege::ProcessesView;
use crate::tables::{Style, Table, bytes, many};

/// What `weir show process` prints.
pub fn text(view: &ProcessesView, style: Style) -> String {
    let mut out = String::new();
    for process in &view.processes {
        let it = &process.process;
        let capabilities = if process.capabilities.is_empty() { "none" } else { &process.capabilities };
        let version = process.landlock_abi.map_or_else(String::new, |abi| format!(" (version {abi})"));
        let descriptors: Vec<_> = it.descriptors.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        out += &format!(
            "{} · pid {} · user {} · group {} · {}\n",
            style.strong(&process.role),
            it.pid,
            it.uid,
            it.gid,
            many(it.threads.len(), "thread"),
        );
        out += &format!("  capabilities  {capabilities}\n");
        out += &format!("  landlock      {}{version}\n", process.landlock);
        out += &format!("  memory        {} resident, {} locked\n", bytes(it.resident_bytes), bytes(it.locked_bytes));
        out += &format!("  descriptors   {}\n\n", descriptors.join(", "));
        let mut table =
            Table::new(&[">thread", "name", ">CPU", "may run on", "capabilities", "no new privileges", "system calls"]);
        for thread in &it.threads {
            let set = confine::Capabilities::from_bits(thread.effective | thread.permitted).to_string();
            table.row([
                thread.tid.to_string(),
                thread.name.clone(),
                thread.cpu.to_string(),
                thread.allowed_cpus.clone(),
                if set.is_empty() { "none".to_owned() } else { set },
                if thread.no_new_privs { "yes" } else { "no" }.to_owned(),
                if thread.seccomp == 2 { "filtered" } else { "all" }.to_owned(),
            ]);
        }
        out += &table.render(style);
        out.push('\n');
    }
    if let Some(error) = &view.helper_error {
        out += &format!("{} {error}\n", style.alarm("helper:"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_is_shown() {
        let view = crate::privilege::answer().unwrap();
        let page = text(&view, Style::default());
        assert!(page.starts_with("gateway · pid ") && page.contains("system calls"), "{page}");
        let shown = |thread: &confine::status::Thread| page.contains(&format!(" {} ", thread.tid));
        assert!(view.processes[0].process.threads.iter().all(shown), "{page}");
    }
}

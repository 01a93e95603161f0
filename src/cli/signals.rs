//! SIGINT and SIGTERM as the interrupt of a control.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isofold::Control;

/// A control that both signals interrupt; `Err` says why they can't be caught.
pub(crate) fn control() -> Result<Control, String> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupt.clone())
            .map_err(|error| format!("signals can't be caught: {error}"))?;
    }
    Ok(Control::new().with_interrupt_flag(interrupt))
}

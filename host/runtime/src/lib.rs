//! Follows leadership and runs the plugins: guards, schedules, sources, history.

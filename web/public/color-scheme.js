// Runs before the first paint, so that a dark page does not flash white. A file and not an inline script, so that
// the server's content security policy can refuse inline scripts.
(function () {
  var chosen = 'auto';
  try {
    chosen = localStorage.getItem('mantine-color-scheme-value') || 'auto';
  } catch {
    // Storage may be forbidden; the system's scheme is right then.
  }
  var dark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light');
})();

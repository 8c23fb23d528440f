// Sets the colour scheme that the user chose before the page is painted; a classic script for that reason.
(() => {
  try {
    const chosen = localStorage.getItem('theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch { /* storage may be forbidden: the scheme of the system it is */ }
})();

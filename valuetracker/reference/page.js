// The search and the side list of the docs page. Without this script the page is complete, and
// its links work.

const search = document.getElementById('search');
const found = document.getElementById('found');
const nothing = document.getElementById('nothing');
const menu = document.getElementById('menu');
// Routes, records and errors, each with the words by which it is found.
const entries = [...document.querySelectorAll('[data-words]')];
const sections = [...document.querySelectorAll('main > section')];
const groups = [...document.querySelectorAll('nav > ul > li')];
const links = new Map(
    [...document.querySelectorAll('nav a')].map((link) => [link.hash.slice(1), link]),
);
const wide = matchMedia('(min-width: 60rem)');

/** Show the entries that have all words of the search. */
function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let routes = 0;
    for (const entry of entries) {
        entry.hidden = !words.every((word) => entry.dataset.words.includes(word));
        const link = links.get(entry.id);
        if (link) {
            link.parentElement.hidden = entry.hidden;
            routes += entry.hidden ? 0 : 1;
        }
    }
    for (const section of sections) {
        section.hidden = words.length > 0 && !section.querySelector('[data-words]:not([hidden])');
    }
    for (const group of groups) {
        group.hidden = words.length > 0 && !group.querySelector('li:not([hidden])');
    }
    found.textContent = words.length ? `${routes} ${routes === 1 ? 'route' : 'routes'}` : '';
    nothing.hidden = sections.some((section) => !section.hidden);
}

/** Return the links of the side list that can be seen. */
function visibleLinks() {
    return [...links.values()].filter((link) => link.offsetParent !== null);
}

function moveFocus(step) {
    const visible = visibleLinks();
    const index = visible.indexOf(document.activeElement) + step;
    (index < 0 ? search : visible[Math.min(index, visible.length - 1)])?.focus();
}

search.addEventListener('input', () => {
    filter();
    scrollTo(0, 0);
});
search.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') {
        const first = entries.find((entry) => entry.id && !entry.hidden);
        if (search.value && first) location.hash = first.id;
    }
});
document.addEventListener('keydown', (event) => {
    const inList = document.activeElement?.closest('nav, search');
    if (event.key === '/' && document.activeElement !== search) {
        search.focus();
        search.select();
    } else if (event.key === 'Escape' && (inList || search.value)) {
        search.value = '';
        filter();
        search.focus();
    } else if (inList && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
        moveFocus(event.key === 'ArrowDown' ? 1 : -1);
    } else {
        return;
    }
    event.preventDefault();
});

// A link may lead to something that the search has hidden.
addEventListener('hashchange', () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.closest('[hidden]')) {
        search.value = '';
        filter();
        target.scrollIntoView();
    }
});

// On a narrow screen the list opens over the content, so it closes when a route is chosen.
function fold() {
    menu.open = wide.matches;
}
wide.addEventListener('change', fold);
menu.addEventListener('click', (event) => {
    if (!wide.matches && event.target.closest('a')) fold();
});
fold();

// The side list marks the route that is being read.
const seen = new IntersectionObserver(
    (changes) => {
        for (const { target, isIntersecting } of changes) {
            if (!isIntersecting || !links.has(target.id)) continue;
            for (const link of links.values()) link.removeAttribute('aria-current');
            const link = links.get(target.id);
            link.setAttribute('aria-current', 'true');
            if (wide.matches && !document.activeElement?.closest('nav, search')) {
                link.scrollIntoView({ block: 'nearest', behavior: 'instant' });
            }
        }
    },
    { rootMargin: '-10% 0px -80% 0px' },
);
for (const entry of entries) seen.observe(entry);

// Browsers keep what was typed when a page is loaded again.
filter();

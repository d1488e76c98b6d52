// The list of studies: replaces its table with a newer one now and then.

const PAUSE = 5000; // milliseconds

async function update() {
  if (document.hidden) return;
  const answer = await fetch(location.pathname);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [now, then] = [document, page].map((each) => each.getElementById("studies"));
  if (!then || now.innerHTML === then.innerHTML) return;
  const active = document.activeElement?.pathname;
  const left = now.querySelector(".scroll")?.scrollLeft ?? 0;
  now.replaceWith(document.adoptNode(then));
  if (then.querySelector(".scroll")) then.querySelector(".scroll").scrollLeft = left;
  if (active) [...then.querySelectorAll("a")].find((link) => link.pathname === active)?.focus();
}

setInterval(() => update().catch(() => {}), PAUSE);

(async () => {
  const file = document.currentScript.dataset.file;
  const get = id => document.getElementById(id);
  const form = get('knobs'), answer = get('answer'), command = get('command'), took = get('took');
  const sliders = [...form.querySelectorAll('input')];
  // A slider stands at the nearest of its steps.
  for (const s of sliders) {
    const now = s.value;
    s.value = s.dataset.begin;
    s.dataset.begin = s.value;
    s.value = now;
  }
  const asked = JSON.parse(get('asked').textContent);
  const packed = Uint8Array.from(atob(get('module').textContent), c => c.charCodeAt(0));
  // The planner has a thread of its own, so that sliders move while it calculates.
  const work = async () => {
    let module;
    onmessage = async ({ data }) => {
      if (data.packed) {
        const stream = new Blob([data.packed]).stream().pipeThrough(new DecompressionStream('gzip'));
        const bytes = await new Response(stream).arrayBuffer();
        module = (await WebAssembly.instantiate(bytes, {})).instance.exports;
        return postMessage({ ready: true });
      }
      const begin = performance.now();
      const text = new TextEncoder().encode(data.asked);
      const at = module.input(text.length);
      new Uint8Array(module.memory.buffer, at, text.length).set(text);
      const length = module.answer();
      const said = new TextDecoder().decode(new Uint8Array(module.memory.buffer, module.output(), length));
      postMessage({ said: JSON.parse(said), took: performance.now() - begin });
    };
  };
  const worker = new Worker(URL.createObjectURL(new Blob([`(${work})()`], { type: 'text/javascript' })));
  const turned = () => Object.fromEntries(sliders.filter(s => s.value !== s.dataset.begin).map(s => [s.id, +s.value]));
  let ready = false, busy = false, again = false;
  const calculate = () => {
    if (!ready || busy) { again = true; return; }
    again = false;
    busy = true;
    worker.postMessage({ asked: JSON.stringify({ ...asked, knobs: turned() }) });
  };
  const show = () => {
    for (const s of sliders) {
      const v = +s.value;
      s.nextElementSibling.textContent = s.dataset.percent === 'true' ? `${Math.round(v * 100)} %` : `× ${v}`;
    }
    const set = Object.entries(turned()).map(([name, value]) => `${name}=${value}`).join(' ');
    command.textContent = `weir plan ${file}` + (set && ` --set ${set}`);
    document.body.dataset.state = 'calculating';
  };
  worker.onmessage = ({ data }) => {
    if (data.ready) {
      ready = true;
    } else {
      busy = false;
      took.textContent = `calculated in ${data.took.toFixed(0)} ms`;
      if (data.said.error) {
        const p = document.createElement('p');
        p.className = 'note';
        p.textContent = data.said.error;
        answer.replaceChildren(p);
      } else {
        answer.innerHTML = data.said.body;
      }
    }
    if (again) return calculate();
    document.body.dataset.state = 'done';
  };
  form.addEventListener('input', () => { show(); calculate(); });
  form.addEventListener('reset', event => {
    event.preventDefault();
    for (const s of sliders) s.value = s.dataset.begin;
    show();
    calculate();
  });
  form.addEventListener('submit', event => event.preventDefault());
  // A link may carry what is turned: page.html#demand=1.5&growth=0.3
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (get(name)?.form === form) get(name).value = value;
  show();
  worker.postMessage({ packed });
  if (Object.keys(turned()).length) calculate(); else document.body.dataset.state = 'done';
})();

const one = (selector) => document.querySelector(selector);
const on = (selector, name, act) => document.querySelectorAll(selector).forEach((node) => node.addEventListener(name, act));
const toggle = (selector, name) => () => one(selector).classList.toggle(name);

on('#menu', 'click', toggle('.menu', 'open'));
on('#fold', 'click', toggle('#all', 'unfolded'));
on('#ask', 'click', () => one('#sure').showModal());
on('#keep', 'click', () => one('#sure').close());
on('[data-tab]', 'click', (event) => {
  document.querySelectorAll('.tab').forEach((tab) => tab.classList.toggle('chosen', tab.id === event.target.dataset.tab));
});
on('#price', 'click', async () => {
  const price = await (await fetch('/price.json')).json();
  one('#today').textContent = `${price.tea} costs ${price.euro} euro today`;
});
on('#save', 'click', () => one('.toast').classList.add('up'));
on('#order', 'submit', (event) => {
  const isWrong = one('#cups').value === '';
  one('#order').classList.toggle('wrong', isWrong);
  if (isWrong) event.preventDefault();
});
on('#strength', 'input', (event) => { one('#told').textContent = `Strength ${event.target.value}`; });
on('#search', 'keydown', (event) => {
  if (event.key === 'Enter') one('#hits').textContent = `Nothing found for ${event.target.value}`;
});
on('[draggable]', 'dragstart', (event) => event.dataTransfer.setData('text', event.target.id));
on('.box', 'dragover', (event) => event.preventDefault());
on('.box', 'drop', (event) => {
  event.preventDefault();
  event.currentTarget.append(document.getElementById(event.dataTransfer.getData('text')));
});
on('#leaf', 'click', () => { one('#leaf + text').textContent = 'Picked'; });

customElements.define('tea-clock', class extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({ mode: 'open' });
    root.innerHTML = '<style>i { display: none } .on i { display: inline }</style>'
      + '<p>Steep for <b>three</b> minutes <i>and stir</i></p><button>Start the clock</button>';
    root.querySelector('button').onclick = () => root.querySelector('p').classList.add('on');
  }
});

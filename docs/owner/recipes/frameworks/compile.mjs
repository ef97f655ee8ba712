// Compiles Contact.svelte to the module that the test bundles: node compile.mjs > OUTPUT
import { readFileSync } from 'node:fs'
import { compile } from 'svelte/compiler'

const { js } = compile(readFileSync(new URL('Contact.svelte', import.meta.url), 'utf8'), { generate: 'client', name: 'Contact' })
console.log(`${js.code}
import { mount } from 'svelte'
const target = document.querySelector('#app')
mount(Contact, { target, props: { sitekey: target.dataset.sitekey } })`)

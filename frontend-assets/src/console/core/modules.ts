// Modules that are loaded on demand.
import { Failure } from './api';
import { loadPageTexts } from './language';

let failures = 0;

/**
 * loadModule loads a module and its texts. A server of another build does not have the module: then the page is
 * loaded again, which brings that build. It rejects with a Failure if the server cannot be reached. A browser may
 * keep the failure of a module, so the page is also loaded again after a second failure.
 */
export async function loadModule<M>(load: () => Promise<M>): Promise<M> {
  try {
    const [module] = await Promise.all([load(), loadPageTexts()]);
    failures = 0;
    return module;
  } catch {
    const script = document.querySelector('script')!; // main.js of this build
    const page = await fetch('/').then(
      (response) => response.text(),
      () => '',
    );
    // A proxy in front answers with a page of its own while the service restarts.
    const isConsole = page.includes('"/console/');
    if (isConsole && (failures++ || !page.includes(script.getAttribute('src')!))) location.reload();
    throw new Failure('OFFLINE', 'The server could not be reached.');
  }
}

// The module of the download of a whole report, which is loaded when it is opened.
import type { ComponentProps } from 'preact';
import { useQuery } from '../core/data';
import { loadModule } from '../core/modules';
import { Failed, Loading } from '../core/states';

type Zip = typeof import('../zip');

const load = async (): Promise<{ module: Zip }> => ({ module: await loadModule(() => import('../zip')) });

/** Download is the dialog of the download, once its module is loaded. */
export function Download(props: ComponentProps<Zip['Download']>) {
  const { data, error, reload } = useQuery(load, {});
  if (error) return <Failed failure={error} retry={reload} />;
  return data ? <data.module.Download {...props} /> : <Loading />;
}

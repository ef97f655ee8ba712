// The text for a site's privacy policy.
import { useEffect, useState } from 'preact/hooks';
import { useQuery } from '../core/data';
import { languages, t } from '../core/language';
import { Loaded } from '../core/states';
import { privacyText, type Language } from '../operations';
import { Choice } from '../parts/choice';
import { Code } from '../parts/copy';
import { Group } from '../parts/group';
import type { SettingsProps } from './form';

/** Privacy shows the text in the language that the reader chooses. */
export function Privacy({ site }: { site: SettingsProps['site'] }) {
  const [chosen, choose] = useState('');
  return (
    <Group title={t('privacy.title')} hint={t('privacy.hint')}>
      <Choice
        label={t('footer.language')}
        options={Object.entries(languages).map(([code, name]) => [code, <span lang={code}>{name}</span>])}
        chosen={chosen}
        choose={choose}
      />
      {chosen && <Text key={chosen} site={site} code={chosen} />}
    </Group>
  );
}

/** Text reads the text again after a change of the settings, which it follows. */
function Text({ site, code }: { site: SettingsProps['site']; code: string }) {
  const query = useQuery(privacyText, { id: site.id, language: code.toUpperCase() as Language });
  const [first] = useState(site);
  useEffect(() => {
    if (site !== first) void query.reload();
  }, [site]);
  return (
    <div lang={code}>
      <Loaded query={query}>{({ site }) => site && <Code text={site.privacyText} label={t('privacy.text')} />}</Loaded>
    </div>
  );
}

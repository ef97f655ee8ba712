// The TLS certificates that the installation obtains itself.
import { dateTime } from '../core/format';
import { t } from '../core/language';
import { Section, Table } from '../core/ui';
import type { OperatorData } from '../operations';
import { Problems } from './problems';

type Certificate = NonNullable<OperatorData['installationHealth']>['certificates'][number];

/** Certificates shows until when the certificate of each host is valid, and which ones are late. */
export function Certificates({ certificates }: { certificates: Certificate[] }) {
  if (certificates.length === 0) return null;
  const problems = certificates.filter(({ late }) => late).map(({ host }) => t('operator.certificateLate', { host }));
  return (
    <Section title={t('operator.certificates')} hint={t('operator.certificatesHint')}>
      {problems.length > 0 && <Problems lines={problems} />}
      <Table label={t('operator.certificates')} head={[t('operator.host'), t('operator.validUntil')]}>
        {certificates.map(({ host, expiresAt }) => (
          <tr key={host}>
            <th scope="row">{host}</th>
            <td>{validity(expiresAt)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

/** validity writes until when a certificate is valid, and marks an expired one. */
function validity(expiresAt: string | null): string {
  if (!expiresAt) return t('operator.noCertificate');
  const time = dateTime(expiresAt);
  return Date.parse(expiresAt) > Date.now() ? time : t('operator.expired', { time });
}

// Why a panel knows no values of a detail of visits.
import { useQuery } from '../core/data';
import { t } from '../core/language';
import { mayEdit } from '../core/store';
import { dimensionText } from '../core/values';
import { visitDetails, type VisitDetail } from '../operations';

/** Unknown says why no visit has a detail. The readers of a shared link learn only that none has it. */
export function Unknown({ id, detail }: { id: string; detail: string }) {
  if (!id) return <p class="hint">{t('detail.none', { what: dimensionText(detail) })}</p>;
  return <Reason id={id} detail={detail as VisitDetail} />;
}

function Reason({ id, detail }: { id: string; detail: VisitDetail }) {
  const { data } = useQuery(visitDetails, { id });
  if (!data?.site) return null;

  const isOff = !data.site.visitDetails.includes(detail);
  const hasNoFile = detail === 'COUNTRY' && !data.installation.countries;
  return (
    <p class="hint">
      {t(hasNoFile ? 'detail.noCountries' : isOff ? 'detail.off' : 'detail.later', { what: dimensionText(detail) })}{' '}
      {isOff && !hasNoFile && mayEdit() && <a href={`/sites/${id}/measurement`}>{t('settings.title')}</a>}
    </p>
  );
}

import type { Reason } from './api';
import { page } from './dom';

/** The states of a widget. */
export type State = 'idle' | 'verifying' | 'done' | 'error';

/**
 * The texts of a widget: the button's label in each state, the reason of an error, and the wait that
 * replaces the dots of a label, with # for the seconds.
 */
export type Texts = Record<State | Reason | 'wait', string>;

const keys = [
  'idle',
  'verifying',
  'done',
  'error',
  'unreachable',
  'unsupported',
  'setup',
  'busy',
  'refused',
  'wait',
] as const;

// Texts in the order of keys. One string per language compresses better than objects.
const languages: Record<string, string> = {
  cs: 'Jsem člověk|Ověřování…|Ověřeno|Ověření se nezdařilo. Zkusit znovu|Server je nedostupný|Tento prohlížeč ověření nepodporuje|Captcha je chybně nastavena|Příliš mnoho pokusů, počkejte prosím|Ověření bylo odmítnuto|asi # sekund',
  da: 'Jeg er et menneske|Bekræfter…|Bekræftet|Bekræftelsen mislykkedes. Prøv igen|Serveren kan ikke nås|Denne browser kan ikke udføre bekræftelsen|Captchaen er konfigureret forkert|For mange forsøg, vent venligst|Bekræftelsen blev afvist|cirka # sekunder',
  de: 'Ich bin ein Mensch|Wird geprüft…|Bestätigt|Prüfung fehlgeschlagen. Erneut versuchen|Server nicht erreichbar|Dieser Browser kann die Prüfung nicht ausführen|Das Captcha ist falsch eingerichtet|Zu viele Versuche, bitte warten|Die Prüfung wurde abgelehnt|etwa # Sekunden',
  en: 'I am human|Verifying…|Verified|Verification failed. Try again|Server not reachable|This browser cannot do the verification|The captcha is set up incorrectly|Too many attempts, please wait|The verification was refused|about # seconds',
  es: 'Soy una persona|Verificando…|Verificado|La verificación ha fallado. Reintentar|No se puede acceder al servidor|Este navegador no es compatible con la verificación|El captcha está mal configurado|Demasiados intentos, espere|La verificación ha sido rechazada|unos # segundos',
  et: 'Olen inimene|Kontrollimine…|Kinnitatud|Kontroll ebaõnnestus. Proovi uuesti|Server pole kättesaadav|See brauser ei toeta kontrolli|Captcha on valesti seadistatud|Liiga palju katseid, palun oota|Kontroll lükati tagasi|umbes # sekundit',
  fi: 'Olen ihminen|Tarkistetaan…|Tarkistettu|Tarkistus epäonnistui. Yritä uudelleen|Palvelimeen ei saada yhteyttä|Tämä selain ei tue tarkistusta|Captcha on määritetty väärin|Liian monta yritystä, odota hetki|Tarkistus hylättiin|noin # sekuntia',
  fr: 'Je suis un être humain|Vérification…|Vérifié|Échec de la vérification. Réessayer|Serveur injoignable|Ce navigateur ne prend pas en charge la vérification|Le captcha est mal configuré|Trop de tentatives, veuillez patienter|La vérification a été refusée|environ # secondes',
  it: 'Sono una persona|Verifica in corso…|Verificato|Verifica non riuscita. Riprova|Server non raggiungibile|Questo browser non supporta la verifica|Il captcha non è configurato correttamente|Troppi tentativi, attendi|La verifica è stata rifiutata|circa # secondi',
  nl: 'Ik ben een mens|Bezig met controleren…|Geverifieerd|Controle mislukt. Opnieuw proberen|Server niet bereikbaar|Deze browser ondersteunt de controle niet|De captcha is verkeerd ingesteld|Te veel pogingen, even geduld|De controle is geweigerd|circa # seconden',
  no: 'Jeg er et menneske|Verifiserer…|Verifisert|Verifiseringen mislyktes. Prøv igjen|Får ikke kontakt med serveren|Denne nettleseren støtter ikke verifiseringen|Captchaen er satt opp feil|For mange forsøk, vent litt|Verifiseringen ble avvist|cirka # sekunder',
  pl: 'Jestem człowiekiem|Weryfikacja…|Zweryfikowano|Weryfikacja nie powiodła się. Spróbuj ponownie|Serwer jest niedostępny|Ta przeglądarka nie obsługuje weryfikacji|Captcha jest źle skonfigurowana|Zbyt wiele prób, proszę czekać|Weryfikacja została odrzucona|około # sekund',
  pt: 'Sou uma pessoa|Verificação…|Verificado|A verificação falhou. Tentar novamente|Servidor inacessível|Este navegador não é compatível com a verificação|O captcha está mal configurado|Muitas tentativas, aguarde|A verificação foi recusada|cerca de # segundos',
  ro: 'Sunt o persoană|Se verifică…|Verificat|Verificarea a eșuat. Încearcă din nou|Serverul nu poate fi accesat|Acest browser nu acceptă verificarea|Captcha-ul este configurat greșit|Prea multe încercări, așteaptă|Verificarea a fost respinsă|circa # s',
  sv: 'Jag är en människa|Verifierar…|Verifierad|Verifieringen misslyckades. Försök igen|Servern kan inte nås|Webbläsaren stöder inte verifieringen|Captchan är felkonfigurerad|För många försök, vänta lite|Verifieringen avvisades|cirka # sekunder',
  uk: 'Я людина|Перевірка…|Перевірено|Перевірка не вдалася. Повторити|Сервер недоступний|Цей браузер не підтримує перевірку|Капчу налаштовано неправильно|Забагато спроб, зачекайте|Перевірку відхилено|бл. # с',
};

/**
 * Returns the language of a widget. The first of data-lang, the page's lang and the browser's
 * languages that is present decides; of the browser's list, the first supported one. Regions and
 * case are ignored. An unknown language falls back to English.
 */
export const languageOf = (dataLang: string): string => {
  const named = dataLang || page.documentElement.lang.trim();
  const codes = (named ? [named] : navigator.languages || [navigator.language]).map((tag) =>
    tag
      .toLowerCase()
      .split(/[-_]/)[0]!
      .replace(/^n[bn]$/, 'no'),
  );
  // The length excludes properties that every object has, such as "constructor".
  return codes.find((code) => code.length === 2 && code in languages) || 'en';
};

/** Returns the texts of a supported language. */
export const textsOf = (language: string): Texts => {
  const texts = {} as Texts;
  languages[language]!.split('|').forEach((text, i) => (texts[keys[i]!] = text));
  return texts;
};

/** What a widget can say. */
export interface Texts {
  idle: string;
  verifying: string;
  verified: string;
  error: string;
  unreachable: string;
  unsupported: string;
  setup: string;
  busy: string;
}

// In the order of Texts: the four labels, then the reasons of an error. One string per language packs smaller than objects.
const languages: Record<string, string> = {
  cs: 'Jsem člověk|Ověřování…|Ověřeno|Ověření se nezdařilo. Zkusit znovu|Server je nedostupný|Tento prohlížeč ověření neumí|Captcha je chybně nastavena|Příliš mnoho pokusů, počkejte prosím',
  da: 'Jeg er et menneske|Kontrollerer…|Kontrolleret|Kontrollen mislykkedes. Prøv igen|Serveren kan ikke nås|Denne browser kan ikke udføre kontrollen|Captchaen er sat forkert op|For mange forsøg, vent venligst',
  de: 'Ich bin ein Mensch|Wird geprüft…|Geprüft|Prüfung fehlgeschlagen. Erneut versuchen|Server nicht erreichbar|Dieser Browser kann die Prüfung nicht ausführen|Das Captcha ist falsch eingerichtet|Zu viele Versuche, bitte warten',
  en: 'I am human|Verifying…|Verified|Verification failed. Try again|Server not reachable|This browser cannot do the verification|The captcha is set up incorrectly|Too many attempts, please wait',
  es: 'Soy una persona|Verificando…|Verificado|La verificación falló. Reintentar|No se puede acceder al servidor|Este navegador no permite la verificación|El captcha está mal configurado|Demasiados intentos, espere',
  et: 'Olen inimene|Kontrollimine…|Kontrollitud|Kontroll ebaõnnestus. Proovi uuesti|Server pole kättesaadav|See brauser ei toeta kontrolli|Captcha on valesti seadistatud|Liiga palju katseid, palun oota',
  fi: 'Olen ihminen|Tarkistetaan…|Tarkistettu|Tarkistus epäonnistui. Yritä uudelleen|Palvelimeen ei saada yhteyttä|Tämä selain ei tue tarkistusta|Captcha on määritetty väärin|Liian monta yritystä, odota hetki',
  fr: 'Je suis humain|Vérification…|Vérifié|Échec de la vérification. Réessayer|Serveur injoignable|Ce navigateur ne permet pas la vérification|Le captcha est mal configuré|Trop de tentatives, veuillez patienter',
  it: 'Sono umano|Verifica in corso…|Verificato|Verifica non riuscita. Riprova|Server non raggiungibile|Questo browser non supporta la verifica|Il captcha non è configurato correttamente|Troppi tentativi, attendi',
  nl: 'Ik ben een mens|Bezig met controleren…|Gecontroleerd|Controle mislukt. Opnieuw proberen|Server niet bereikbaar|Deze browser ondersteunt de controle niet|De captcha is verkeerd ingesteld|Te veel pogingen, even geduld',
  no: 'Jeg er et menneske|Bekrefter…|Bekreftet|Bekreftelsen mislyktes. Prøv igjen|Får ikke kontakt med serveren|Denne nettleseren støtter ikke kontrollen|Captchaen er satt opp feil|For mange forsøk, vent litt',
  pl: 'Jestem człowiekiem|Weryfikacja…|Zweryfikowano|Weryfikacja nie powiodła się. Spróbuj ponownie|Serwer jest niedostępny|Ta przeglądarka nie obsługuje weryfikacji|Captcha jest źle skonfigurowana|Zbyt wiele prób, proszę czekać',
  pt: 'Sou uma pessoa|Verificação em curso…|Verificado|A verificação falhou. Tentar novamente|Servidor inacessível|Este navegador não suporta a verificação|O captcha está mal configurado|Demasiadas tentativas, aguarde',
  ro: 'Sunt om|Se verifică…|Verificat|Verificarea a eșuat. Încearcă din nou|Serverul nu poate fi accesat|Acest browser nu acceptă verificarea|Captcha este configurat greșit|Prea multe încercări, așteaptă',
  sv: 'Jag är en människa|Verifierar…|Verifierad|Verifieringen misslyckades. Försök igen|Servern kan inte nås|Webbläsaren stöder inte verifieringen|Captchan är felinställd|För många försök, vänta lite',
  uk: 'Я людина|Перевірка…|Перевірено|Перевірка не вдалася. Повторити|Сервер недоступний|Цей браузер не підтримує перевірку|Капчу налаштовано неправильно|Забагато спроб, зачекайте',
};

/**
 * The language of a widget: the first of data-lang, the page's lang and the browser's languages that is there decides. Of the
 * browser's list the first one that we speak is taken. Regions and case do not matter; anything unknown is English.
 */
export const languageOf = (dataLang: string | undefined): string => {
  const named = (dataLang || '').trim() || document.documentElement.lang.trim();
  const codes = (named ? [named] : navigator.languages || [navigator.language]).map((tag) => {
    const code = tag.toLowerCase().split(/[-_]/)[0]!;
    return code === 'nb' ? 'no' : code;
  });
  // The length keeps out what every object has, such as "constructor".
  return codes.find((code) => code.length === 2 && code in languages) || 'en';
};

/** The texts of one of our languages. */
export const textsOf = (language: string): Texts => {
  const t = languages[language]!.split('|');
  return { idle: t[0]!, verifying: t[1]!, verified: t[2]!, error: t[3]!, unreachable: t[4]!, unsupported: t[5]!, setup: t[6]!, busy: t[7]! };
};

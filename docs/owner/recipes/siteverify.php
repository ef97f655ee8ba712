<?php
// Verifies the token of a form, with PHP 8 and no extension.
//
//   CAPTCHA_URL=https://captcha.example.com CAPTCHA_SECRET=svcc_… php siteverify.php TOKEN
declare(strict_types=1);

/** @return array{bool, list<string>} whether the token is genuine and unused, and else the codes of the errors */
function verify(string $token): array
{
    $request = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => 'Content-Type: application/x-www-form-urlencoded',
        'content' => http_build_query(['secret' => getenv('CAPTCHA_SECRET'), 'response' => $token]),
        'timeout' => 10,
    ]]);
    $text = file_get_contents(getenv('CAPTCHA_URL') . '/siteverify', false, $request);
    if ($text === false) {
        throw new RuntimeException('no answer: refuse, and ask to send again later');
    }

    $answer = json_decode($text, true, 8, JSON_THROW_ON_ERROR);
    return [$answer['success'], $answer['error-codes'] ?? []];
}

[$ok, $codes] = verify($argv[1]);
echo var_export($ok, true), ' ', implode(' ', $codes), "\n";

From kernel Require Import definitions lemmas.
From kernel Require rf.

(* gip.prop3: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Proposition 3 (eq. 25, 26).
   Each bit of I_0 in {0,1}^d is kept with probability p and flipped otherwise. This is eps_2-DP if p <= e^{eps_2/C_1} / (1 + e^{eps_2/C_1}), C_1 the index sensitivity. *)
Module prop3.
Fixpoint response (p : R) (I0 I : list bool) : R :=                    (* probability of the output I *)
  match I0, I with a :: I0', b :: I' => (if Bool.eqb a b then p else 1 - p) * response p I0' I' | _, _ => 1 end.
Definition private (d : nat) (p : R) (C1 : nat) (eps : R) : Prop :=
  forall I0 I1 I, length I0 = d -> length I1 = d -> length I = d -> (distance I0 I1 <= C1)%nat ->
  response p I0 I <= exp eps * response p I1 I.
Definition limit (C1 : nat) (eps : R) : R := exp (eps / INR C1) / (1 + exp (eps / INR C1)).
Definition printed : Prop := forall d p C1 eps, 0 <= p <= 1 -> 0 <= eps -> (0 < C1 <= d)%nat ->
  p <= limit C1 eps -> private d p C1 eps.
(* if and only if the larger of p and 1 - p is *)
Definition correction : Prop := forall d p C1 eps, 0 <= p <= 1 -> 0 <= eps -> (0 < C1 <= d)%nat ->
  (Rmax p (1 - p) <= limit C1 eps <-> private d p C1 eps).

Lemma limit_pos C1 eps : 0 < limit C1 eps < 1.
Proof.
  unfold limit. pose proof (exp_pos (eps / INR C1)) as x0. set (x := exp (eps / INR C1)) in *. split; [apply Rdiv_lt_0_compat; lra|].
  apply (Rmult_lt_reg_r (1 + x)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.
Lemma response_nonneg p I0 I : 0 <= p <= 1 -> 0 <= response p I0 I.
Proof. intro h. revert I; induction I0 as [|a I0 IH]; intros [|b I]; simpl; try lra. specialize (IH I). destruct (Bool.eqb a b); apply Rmult_le_pos; lra. Qed.
(* with p = x q, 1 - p = q and x >= 1, or the other way round, every place costs at most a factor x *)
Lemma cost p x : 0 <= p <= 1 -> 1 <= x -> p <= x * (1 - p) -> 1 - p <= x * p -> forall I0 I1 I, length I0 = length I -> length I1 = length I ->
  response p I0 I <= x ^ distance I0 I1 * response p I1 I.
Proof.
  intros h x1 a b I0. induction I0 as [|c I0 IH]; intros [|c1 I1] [|i I] l l'; try discriminate; [simpl; lra|].
  injection l as l. injection l' as l'. specialize (IH I1 I l l'). cbn [response distance].
  pose proof (response_nonneg p I0 I h). pose proof (response_nonneg p I1 I h).
  assert (0 < x ^ distance I0 I1) by (apply pow_lt; lra). set (X := x ^ distance I0 I1) in *. set (P0 := response p I0 I) in *. set (P1 := response p I1 I) in *.
  assert (0 <= X * P1) by (apply Rmult_le_pos; lra).
  destruct c, c1, i; cbn [Bool.eqb plus]; cbn [pow]; fold X;
    first [ apply Rle_trans with (p * (X * P1)); [apply Rmult_le_compat_l; lra|]; nra
          | apply Rle_trans with ((1 - p) * (X * P1)); [apply Rmult_le_compat_l; lra|]; nra ].
Qed.
Lemma exp_pow x k : exp x ^ k = exp (INR k * x).
Proof. induction k; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|]. cbn [pow]. rewrite IHk, <- exp_plus, S_INR. f_equal. ring. Qed.
Definition same (p : R) (b c : bool) : R := if Bool.eqb b c then p else 1 - p.
Lemma response_app p a b a' b' : length a = length a' -> response p (a ++ b) (a' ++ b') = response p a a' * response p b b'.
Proof. revert a'; induction a as [|x a IH]; intros [|y a'] l; try discriminate; simpl; [ring|]. rewrite IH by (simpl in l; lia). ring. Qed.
Lemma distance_app a b a' b' : length a = length a' -> distance (a ++ b) (a' ++ b') = (distance a a' + distance b b')%nat.
Proof. revert a'; induction a as [|x a IH]; intros [|y a'] l; try discriminate; simpl; [lia|]. rewrite IH by (simpl in l; lia). lia. Qed.
Lemma response_repeat p b c k : response p (repeat b k) (repeat c k) = same p b c ^ k.
Proof. induction k; simpl; [reflexivity|]. rewrite IHk. reflexivity. Qed.
Lemma distance_repeat b c k : distance (repeat b k) (repeat c k) = (if Bool.eqb b c then 0 else k)%nat.
Proof. induction k; simpl; [destruct (Bool.eqb b c); reflexivity|]. rewrite IHk. destruct (Bool.eqb b c); lia. Qed.
Theorem correction_holds : correction.
Proof.
  intros d p C1 eps h e0 [C0 Cd]. assert (c0 : 0 < INR C1) by (apply lt_0_INR; lia).
  unfold limit. set (x := exp (eps / INR C1)). assert (x0 : 0 < x) by apply exp_pos.
  assert (x1 : 1 <= x). { unfold x. rewrite <- exp_0. destruct (Req_dec eps 0) as [->|ne]; [right; f_equal; field; lra|].
    left. apply exp_increasing, Rdiv_lt_0_compat; lra. }
  assert (ex : exp eps = x ^ C1) by (unfold x; rewrite exp_pow; f_equal; field; lra).
  assert (eqv : forall q, q <= x / (1 + x) <-> q <= x * (1 - q)).
  { intro q. split; intro k.
    - assert (q * (1 + x) <= x / (1 + x) * (1 + x)) by (apply Rmult_le_compat_r; lra).
      replace (x / (1 + x) * (1 + x)) with x in H by (field; lra). lra.
    - apply (Rmult_le_reg_r (1 + x)); [lra|]. replace (x / (1 + x) * (1 + x)) with x by (field; lra). lra. }
  split.
  - intro k. assert (k1 : p <= x / (1 + x)) by (eapply Rle_trans; [apply Rmax_l | exact k]).
    assert (k2 : 1 - p <= x / (1 + x)) by (eapply Rle_trans; [apply Rmax_r | exact k]).
    apply eqv in k1. apply eqv in k2. replace (1 - (1 - p)) with p in k2 by ring.
    intros I0 I1 I l0 l1 l dist. eapply Rle_trans; [apply (cost p x h x1 k1 k2 I0 I1 I); congruence|].
    apply Rmult_le_compat_r; [apply response_nonneg, h|]. rewrite ex. apply Rle_pow; [exact x1 | exact dist].
  - intro priv.
    set (I b := repeat b C1 ++ repeat true (d - C1)). set (t := if Req_EM_T p 0 then false else true).
    set (J b := repeat b C1 ++ repeat t (d - C1)).
    assert (lI : forall b, length (I b) = d) by (intro; unfold I; rewrite app_length, !repeat_length; lia).
    assert (lJ : forall b, length (J b) = d) by (intro; unfold J; rewrite app_length, !repeat_length; lia).
    assert (dI : forall b c, (distance (I b) (I c) <= C1)%nat).
    { intros b c. unfold I. rewrite distance_app, !distance_repeat by (rewrite !repeat_length; reflexivity). destruct (Bool.eqb b c); simpl; lia. }
    assert (rJ : forall b c, response p (I b) (J c) = same p b c ^ C1 * same p true t ^ (d - C1)).
    { intros b c. unfold I, J. rewrite response_app, !response_repeat by (rewrite !repeat_length; reflexivity). reflexivity. }
    assert (t0 : 0 < same p true t ^ (d - C1)).
    { apply pow_lt. unfold same, t. destruct (Req_EM_T p 0); simpl; lra. }
    pose proof (priv (I true) (I false) (J true) (lI _) (lI _) (lJ _) (dI _ _)) as a.
    pose proof (priv (I false) (I true) (J true) (lI _) (lI _) (lJ _) (dI _ _)) as b.
    rewrite !rJ, ex in a, b. unfold same at 1 3 in a. unfold same at 1 3 in b. cbn [Bool.eqb] in a, b.
    rewrite <- Rmult_assoc in a, b. apply Rmult_le_reg_r in a; [|exact t0]. apply Rmult_le_reg_r in b; [|exact t0].
    assert (root : forall q r, 0 <= q -> 0 <= r -> q ^ C1 <= x ^ C1 * r ^ C1 -> q <= x * r).
    { intros q r q0 r0 le. rewrite <- Rpow_mult_distr in le. destruct (Rle_dec q (x * r)) as [y|n]; [exact y|].
      assert (H : x * r < q) by lra. assert (H0 : 0 <= x * r) by (apply Rmult_le_pos; lra).
      assert (up : forall y k, 0 <= y < q -> y ^ S k < q ^ S k).
      { intros y k [y0 yq]. induction k as [|k IH]; [simpl; lra|]. change (y * y ^ S k < q * q ^ S k).
        apply Rmult_le_0_lt_compat; [exact y0 | apply pow_le; exact y0 | exact yq | exact IH]. }
      destruct C1 as [|k]; [lia|]. specialize (up (x * r) k (conj H0 H)). lra. }
    apply Rmax_lub; apply eqv; apply root; try lra. replace (1 - (1 - p)) with p by ring. exact b.
Qed.
(* d = 1, p = 1/10, eps = log 2, C_1 = 1: the loss is log 9 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (e0 : 0 <= ln 2) by (rewrite <- ln_1; left; apply ln_increasing; lra).
  assert (l : limit 1 (ln 2) = 2 / 3).
  { unfold limit. replace (ln 2 / INR 1) with (ln 2) by (simpl; field). rewrite exp_ln by lra. field. }
  specialize (claim 1%nat (1 / 10) 1%nat (ln 2) ltac:(lra) e0 ltac:(lia) ltac:(rewrite l; lra)).
  specialize (claim [true] [false] [false] eq_refl eq_refl eq_refl ltac:(simpl; lia)).
  rewrite exp_ln in claim by lra. simpl in claim. lra.
Qed.
End prop3.

(* gip.thm1: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Theorem 1, Definition 4 (eq. 4, 8 to 10).
   P(I) = exp(-theta h(I, I_0)) / psi over the index sets with K = kd ones is eps-differentially private if and only if theta <= eps / s_1, s_1 the sensitivity of the index set.
   Doubt: theta >= 0 and s_1 > 0 are added; the theorem does not state them, and at negative theta its condition does not hold. *)
Module thm1.
Definition weight (theta : R) (I0 I : list bool) : R := exp (- theta * INR (distance I I0)).
Definition psi (d K : nat) (theta : R) (I0 : list bool) : R := over_masks d K (weight theta I0).
Definition mallows (d K : nat) (theta : R) (I0 I : list bool) : R := weight theta I0 I / psi d K theta I0.
(* neighbours' index sets: any relation; s is the largest distance in it, and reached *)
Definition sensitivity (d K : nat) (near : list bool -> list bool -> Prop) (s : nat) : Prop :=
  (forall I J, near I J -> In I (masks d K) /\ In J (masks d K) /\ (distance I J <= s)%nat) /\
  exists I J, near I J /\ distance I J = s.
Definition private (d K : nat) (theta : R) (near : list bool -> list bool -> Prop) (eps : R) : Prop :=
  forall I0 I1 I, near I0 I1 -> In I (masks d K) ->
  mallows d K theta I0 I <= exp eps * mallows d K theta I1 I /\ mallows d K theta I1 I <= exp eps * mallows d K theta I0 I.
Definition printed : Prop := forall d K theta near s eps, (K <= d)%nat -> 0 <= theta -> (0 < s)%nat -> sensitivity d K near s ->
  (private d K theta near eps <-> theta <= eps / INR s).

Lemma weight_pos theta I0 I : 0 < weight theta I0 I. Proof. apply exp_pos. Qed.
Lemma psi_same d K theta I0 I1 : In I0 (masks d K) -> In I1 (masks d K) -> psi d K theta I0 = psi d K theta I1.
Proof. apply (over_masks_reference d K I0 I1 (fun n => exp (- theta * INR n))). Qed.
Lemma psi_pos d K theta I0 : (K <= d)%nat -> 0 < psi d K theta I0.
Proof. intro. apply over_masks_pos; [assumption | intro; apply weight_pos]. Qed.
Lemma one_way d K theta eps s I0 I1 I : (K <= d)%nat -> 0 <= theta -> (0 < s)%nat -> theta <= eps / INR s ->
  In I0 (masks d K) -> In I1 (masks d K) -> In I (masks d K) -> (distance I0 I1 <= s)%nat ->
  mallows d K theta I0 I <= exp eps * mallows d K theta I1 I.
Proof.
  intros Kd t0 s0 te i0 i1 i ds. unfold mallows. rewrite (psi_same d K theta I0 I1 i0 i1). pose proof (psi_pos d K theta I1 Kd).
  unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; assumption|].
  unfold weight. rewrite <- exp_plus. assert (c : 0 < INR s) by (apply lt_0_INR; exact s0).
  assert (te' : theta * INR s <= eps).
  { apply (Rmult_le_compat_r (INR s)) in te; [|lra]. replace (eps / INR s * INR s) with eps in te by (field; lra). exact te. }
  destruct (in_masks _ _ _ i0) as [l0 _], (in_masks _ _ _ i1) as [l1 _], (in_masks _ _ _ i) as [l _].
  pose proof (distance_triangle I I0 I1 ltac:(congruence) ltac:(congruence)) as tr.
  apply le_INR in tr. rewrite plus_INR in tr. apply le_INR in ds.
  assert (- theta * INR (distance I I0) <= eps + - theta * INR (distance I I1)) by nra.
  destruct (Rle_lt_or_eq_dec _ _ H0) as [lt|e]; [left; apply exp_increasing, lt | right; f_equal; exact e].
Qed.
Theorem printed_holds : printed.
Proof.
  intros d K theta near s eps Kd t0 s0 [bound (A & B & nAB & dAB)]. split.
  - intro p. destruct (bound A B nAB) as (iA & iB & _). destruct (p A B A nAB iA) as [h _]. unfold mallows in h.
    rewrite (psi_same d K theta A B iA iB) in h. pose proof (psi_pos d K theta B Kd). unfold Rdiv in h. rewrite <- Rmult_assoc in h.
    apply Rmult_le_reg_r in h; [|apply Rinv_0_lt_compat; assumption]. unfold weight in h. rewrite distance_self, dAB, <- exp_plus in h.
    assert (- theta * INR 0 <= eps + - theta * INR s).
    { destruct (Rle_dec (- theta * INR 0) (eps + - theta * INR s)) as [y|n]; [exact y|]. assert (lt : eps + - theta * INR s < - theta * INR 0) by lra.
      apply exp_increasing in lt. lra. }
    assert (c : 0 < INR s) by (apply lt_0_INR; exact s0). simpl INR in H0. apply (Rmult_le_reg_r (INR s)); [exact c|].
    replace (eps / INR s * INR s) with eps by (field; lra). lra.
  - intros te I0 I1 I n i. destruct (bound I0 I1 n) as (i0 & i1 & ds). split; [eapply one_way; eassumption|].
    apply (one_way d K theta eps s I1 I0 I); try assumption. rewrite distance_comm. exact ds.
Qed.
(* the hypotheses can be met: d = 2, K = 1, the two index sets are neighbours *)
Lemma satisfiable : sensitivity 2 1 (fun I J => In I (masks 2 1) /\ In J (masks 2 1)) 2.
Proof.
  split.
  - intros I J [i j]. split; [exact i|]. split; [exact j|]. simpl in i, j. destruct i as [<-|[<-|[]]], j as [<-|[<-|[]]]; simpl; lia.
  - exists [true; false], [false; true]. simpl. tauto.
Qed.
End thm1.

(* gip.a4: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   As the index sensitivity is large, randomised response has p close to 1/2 and "the output of index is basically a random flipping with half being 0 and half being 1,
   which loses the meaning of pruning". That its output does not keep the number of ones is right, and not stated here. Refuted is the reading, in a comparison of
   the two, that the Mallows mechanism therefore keeps more of the reference in high dimension. *)
Module a4.
Import gip.prop3 gip.thm1.
(* At the same budget and sensitivity both have the same theta = log(p / (1 - p)) = eps_2 / C_1. How much the output tells of the reference I0:
   the chance that a one of I0 is kept less the chance that a zero of it is turned into a one. *)
Definition one_at (j : nat) (I : list bool) : R := if nth j I false then 1 else 0.
Definition mallows_chance (d K : nat) (theta : R) (I0 : list bool) (j : nat) : R :=
  over_masks d K (fun I => mallows d K theta I0 I * one_at j I).
Definition contrast (d K : nat) (theta : R) (I0 : list bool) (i j : nat) : R :=
  mallows_chance d K theta I0 i - mallows_chance d K theta I0 j.
Definition response_contrast (p : R) : R := p - (1 - p).
(* for p close enough to 1/2 and d large enough *)
Definition reading : Prop := exists d0 p0, 1 / 2 < p0 /\
  forall d K p I0 i j, (d0 <= d)%nat -> (0 < K < d)%nat -> 1 / 2 < p < p0 -> p < 1 -> In I0 (masks d K) -> (i < d)%nat -> (j < d)%nat ->
  nth i I0 false = true -> nth j I0 false = false ->
  response_contrast p <= contrast d K (ln (p / (1 - p))) I0 i j.
(* given that its output has K ones, randomised response is the Mallows law, and at distance h both have the loss theta h *)
Definition correction : Prop := forall d K p I0 I, (K <= d)%nat -> 1 / 2 < p < 1 -> In I0 (masks d K) -> In I (masks d K) ->
  response p I0 I / over_masks d K (response p I0) = mallows d K (ln (p / (1 - p))) I0 I.

Lemma response_power p I0 I : 0 < p -> length I0 = length I -> response p I0 I = p ^ length I * ((1 - p) / p) ^ distance I I0.
Proof.
  intro p0. revert I; induction I0 as [|a I0 IH]; intros [|b I] l; try discriminate; [simpl; ring|]. cbn [response distance length].
  rewrite IH by (simpl in l; lia). destruct a, b; cbn [Bool.eqb plus pow]; field; lra.
Qed.
Lemma weight_power p h : 1 / 2 < p < 1 -> exp (- ln (p / (1 - p)) * INR h) = ((1 - p) / p) ^ h.
Proof.
  intros [a b]. assert (0 < p / (1 - p)) by (apply Rdiv_lt_0_compat; lra).
  replace ((1 - p) / p) with (exp (- ln (p / (1 - p)))); [rewrite exp_pow; f_equal; ring|].
  rewrite exp_Ropp, exp_ln by assumption. field; lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d K p I0 I Kd hp i0 i. destruct (in_masks _ _ _ i0) as [l0 _], (in_masks _ _ _ i) as [l _]. unfold mallows.
  assert (w : forall J, In J (masks d K) -> response p I0 J = p ^ d * weight (ln (p / (1 - p))) I0 J).
  { intros J j. destruct (in_masks _ _ _ j) as [lJ _]. rewrite response_power by (try lra; congruence). unfold weight. rewrite weight_power by exact hp.
    rewrite lJ. reflexivity. }
  assert (s : over_masks d K (response p I0) = p ^ d * psi d K (ln (p / (1 - p))) I0).
  { unfold psi, over_masks. rewrite <- total_map_scale. apply total_map_ext, Forall_forall. exact w. }
  rewrite s, w by exact i. pose proof (psi_pos d K (ln (p / (1 - p))) I0 Kd). assert (0 < p ^ d) by (apply pow_lt; lra). field. lra.
Qed.
(* d >= 5 entries, one kept, 1/2 < p <= 5/9, q = (1 - p)/p >= 4/5: the contrast of randomised response is (1 - q)/(1 + q),
   that of the Mallows law (1 - q^2)/(1 + (d - 1) q^2), which is smaller; 1/9 and 9/89 for d = 5, q = 4/5 *)
Lemma masks_none d : masks d 0 = [repeat false d].
Proof. induction d as [|d IH]; [reflexivity|]. cbn [masks repeat]. rewrite IH. reflexivity. Qed.
Lemma distance_none m : distance m (repeat false (length m)) = ones m.
Proof. unfold ones. induction m as [|[] m IH]; simpl; [reflexivity | rewrite IH; reflexivity | exact IH]. Qed.
Lemma number_one d : number d 1 = INR d.
Proof. pose proof (number_next d 0) as h. rewrite number_zero in h. simpl in h. lra. Qed.
Lemma one_kept d (F : nat -> R) (f : list bool -> R) :
  over_masks (S d) 1 (fun I => F (distance I (true :: repeat false d)) * f I)
  = F 0%nat * f (true :: repeat false d) + F 2%nat * over_masks d 1 (fun m => f (false :: m)).
Proof.
  rewrite over_masks_step. f_equal.
  - unfold over_masks. rewrite masks_none. cbn [map total fold_right]. cbn [distance Bool.eqb plus]. rewrite distance_self. ring.
  - unfold over_masks. rewrite <- total_map_scale. apply total_map_ext, Forall_forall. intros m i. destruct (in_masks _ _ _ i) as [l o].
    cbn [distance Bool.eqb plus]. rewrite <- l, distance_none, o. reflexivity.
Qed.
Lemma psi_one d theta : psi (S d) 1 theta (true :: repeat false d) = exp (- theta * INR 0) + exp (- theta * INR 2) * INR d.
Proof.
  unfold psi, weight. rewrite (over_masks_ext _ _ _ (fun I => exp (- theta * INR (distance I (true :: repeat false d))) * 1)) by (intro; ring).
  rewrite (one_kept d (fun h => exp (- theta * INR h)) (fun _ => 1)), over_masks_constant, number_one. ring.
Qed.
Lemma chance_one d theta j : mallows_chance (S d) 1 theta (true :: repeat false d) j
  = (exp (- theta * INR 0) * one_at j (true :: repeat false d) + exp (- theta * INR 2) * over_masks d 1 (fun m => one_at j (false :: m)))
    / psi (S d) 1 theta (true :: repeat false d).
Proof.
  unfold mallows_chance, mallows. set (P := psi _ _ _ _).
  rewrite <- (one_kept d (fun h => exp (- theta * INR h)) (one_at j)). unfold Rdiv. rewrite Rmult_comm. unfold over_masks. rewrite <- total_map_scale.
  apply total_map_ext, Forall_forall. intros I _. unfold weight. ring.
Qed.
Lemma contrast_one d p : 1 / 2 < p < 1 -> let q := (1 - p) / p in
  contrast (S (S d)) 1 (ln (p / (1 - p))) (true :: repeat false (S d)) 0 1 = (1 - q ^ 2) / (1 + INR (S d) * q ^ 2).
Proof.
  intros hp q. unfold contrast. rewrite !chance_one, psi_one, !weight_power by exact hp. fold q.
  assert (z : forall e, over_masks e 1 (fun m => one_at 0 (false :: m)) = 0).
  { intro e. unfold one_at. cbn [nth]. rewrite over_masks_constant. ring. }
  assert (u : over_masks (S d) 1 (fun m => one_at 1 (false :: m)) = 1).
  { rewrite over_masks_step. unfold one_at. cbn [nth]. rewrite !over_masks_constant, number_zero. ring. }
  rewrite z, u. unfold one_at. cbn [nth repeat]. cbn [pow]. assert (0 <= q * (q * 1)) by nra. pose proof (pos_INR (S d)).
  assert (0 <= INR (S d) * (q * (q * 1))) by (apply Rmult_le_pos; assumption). field. lra.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intros (d0 & p0 & h0 & claim). set (d := (d0 + 3)%nat). set (p := Rmin (5 / 9) ((1 / 2 + p0) / 2)).
  assert (p1 : p <= 5 / 9) by apply Rmin_l. assert (p2 : p <= (1 / 2 + p0) / 2) by apply Rmin_r.
  assert (p3 : 1 / 2 < p) by (apply Rmin_glb_lt; lra).
  specialize (claim (S (S d)) 1%nat p (true :: repeat false (S d)) 0%nat 1%nat ltac:(unfold d; lia) ltac:(lia) ltac:(lra) ltac:(lra)).
  assert (i : In (true :: repeat false (S d)) (masks (S (S d)) 1)).
  { change (masks (S (S d)) 1) with (map (cons true) (masks (S d) 0) ++ map (cons false) (masks (S d) 1)). rewrite masks_none. apply in_or_app. left. left. reflexivity. }
  specialize (claim i ltac:(lia) ltac:(lia) eq_refl eq_refl). rewrite (contrast_one d p ltac:(lra)) in claim. unfold response_contrast in claim.
  set (q := (1 - p) / p) in *. assert (pq : p * q = 1 - p) by (unfold q; field; lra).
  assert (q0 : 4 / 5 <= q) by (apply (Rmult_le_reg_l p); lra). assert (q1 : q < 1) by (apply (Rmult_lt_reg_l p); lra).
  assert (n : 4 <= INR (S d)) by (replace 4 with (INR 4) by (simpl; ring); apply le_INR; unfold d; lia). set (N := INR (S d)) in *.
  assert (big : 2 * q + q ^ 2 < N * q ^ 2) by nra. assert (D : 0 < 1 + N * q ^ 2) by nra.
  apply (Rmult_le_compat_r (1 + N * q ^ 2)) in claim; [|lra]. replace ((1 - q ^ 2) / (1 + N * q ^ 2) * (1 + N * q ^ 2)) with (1 - q ^ 2) in claim by (field; lra).
  assert (e : p - (1 - p) = p * (1 - q)) by lra. rewrite e in claim.
  assert (f : p * (1 + q) = 1) by lra. assert (p * (1 - q) * ((1 + q) * (1 + q)) < p * (1 - q) * (1 + N * q ^ 2)) by (apply Rmult_lt_compat_l; nra).
  replace (p * (1 - q) * ((1 + q) * (1 + q))) with (p * (1 + q) * (1 - q ^ 2)) in H by ring. rewrite f in H. lra.
Qed.
End a4.

(* gip.a4.sensitivity: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   "we performed per example pruning, keeping 1% of index for each gradient, in this case, we calculated that C_1(I) = 2 x 10^4", with d = 10^6, so that C_1 = 2K for K = 1 % of d.
   C_1 is the sensitivity of Definition 3: the largest distance of the index sets of neighbouring data sets, "differing by at most one unit".
   Read with one record replaced and the index set that is the support of the batch's sum it holds; with one record added or removed it is K.
   Doubt: the paper does not say which neighbours, nor whether the index set is the support of the sum or its top-K set, which Theorem 1 needs. *)
Module a4_sensitivity.
Import gip.prop3.
Definition nonzero (a : R) : bool := if Req_EM_T a 0 then false else true.
Definition support (g : vec) : list bool := map nonzero g.
Definition sparse (d K : nat) (g : vec) : Prop := length g = d /\ (ones (support g) <= K)%nat.
Definition index_set (d : nat) (gs : list vec) : list bool := support (sum d gs).
Definition replaced (d K : nat) (x y : list vec) : Prop := exists g g' gs, x = g :: gs /\ y = g' :: gs /\ Forall (sparse d K) (g :: g' :: gs).
Definition added (d K : nat) (x y : list vec) : Prop := exists g, x = g :: y /\ Forall (sparse d K) x.
Definition sensitivity (d : nat) (near : list vec -> list vec -> Prop) (c : nat) : Prop :=
  (forall x y, near x y -> (distance (index_set d x) (index_set d y) <= c)%nat) /\
  exists x y, near x y /\ distance (index_set d x) (index_set d y) = c.
Definition printed : Prop := forall d K, (0 < K)%nat -> (2 * K <= d)%nat -> sensitivity d (replaced d K) (2 * K).
(* another reading: one record added or removed *)
Definition reading : Prop := forall d K, (0 < K)%nat -> (2 * K <= d)%nat -> sensitivity d (added d K) (2 * K).
(* then it is K; and the support, unlike what Theorem 1 needs, can have more than K ones *)
Definition correction : Prop := (forall d K, (0 < K <= d)%nat -> sensitivity d (added d K) K) /\
  exists d K gs, Forall (sparse d K) gs /\ (K < ones (index_set d gs))%nat.

Lemma zero_entry : nonzero 0 = false. Proof. unfold nonzero. destruct (Req_EM_T 0 0); congruence. Qed.
Lemma one_entry a : a <> 0 -> nonzero a = true. Proof. unfold nonzero. destruct (Req_EM_T a 0); congruence. Qed.
Lemma moves u v s : length u = length s -> length v = length s ->
  (distance (support (add u s)) (support (add v s)) <= ones (support u) + ones (support v))%nat.
Proof.
  revert v s; induction u as [|a u IH]; intros [|b v] [|c s] l l'; try discriminate; [simpl; lia|].
  injection l as l. injection l' as l'. specialize (IH v s l l'). unfold support, add, ones in *. cbn [zip map].
  cbn [distance count_occ].
  assert (q : nonzero a = false -> nonzero b = false -> nonzero (a + c) = nonzero (b + c)).
  { unfold nonzero at 1 2. destruct (Req_EM_T a 0), (Req_EM_T b 0); try discriminate. subst. reflexivity. }
  assert (r : forall x y, ((if Bool.eqb x y then 0 else 1) <= 1)%nat) by (intros [] []; simpl; lia).
  pose proof (r (nonzero (a + c)) (nonzero (b + c))). destruct (nonzero a), (nonzero b); simpl; try lia.
  rewrite q by reflexivity. rewrite Bool.eqb_reflx. lia.
Qed.
Lemma add_zero v : add v (zero (length v)) = v.
Proof. induction v as [|a v IH]; [reflexivity|]. unfold add, zero in *. simpl. rewrite IH. f_equal. ring. Qed.
Lemma zero_add s : add (zero (length s)) s = s.
Proof. induction s as [|a v IH]; [reflexivity|]. unfold add, zero in *. simpl. rewrite IH. f_equal. ring. Qed.
Lemma support_repeat a n : support (repeat a n) = repeat (nonzero a) n.
Proof. unfold support. induction n; simpl; congruence. Qed.
Lemma support_app u v : support (u ++ v) = support u ++ support v.
Proof. apply map_app. Qed.
Lemma ones_app a b : ones (a ++ b) = (ones a + ones b)%nat.
Proof. apply count_occ_app. Qed.
Lemma ones_repeat b n : ones (repeat b n) = if b then n else 0%nat.
Proof. unfold ones. induction n as [|n IH]; [destruct b; reflexivity|]. cbn [repeat count_occ]. destruct b; simpl in *; rewrite IH; reflexivity. Qed.
(* the first K entries, and the next K *)
Definition head d K : vec := repeat 1 K ++ repeat 0 (d - K).
Definition next d K : vec := repeat 0 K ++ repeat 1 K ++ repeat 0 (d - 2 * K).
Lemma head_sparse d K : (K <= d)%nat -> sparse d K (head d K).
Proof. intro l. unfold sparse, head. rewrite app_length, !repeat_length, support_app, !support_repeat, ones_app, !ones_repeat, zero_entry, one_entry by lra. lia. Qed.
Lemma next_sparse d K : (2 * K <= d)%nat -> sparse d K (next d K).
Proof. intro l. unfold sparse, next. rewrite !app_length, !repeat_length, !support_app, !support_repeat, !ones_app, !ones_repeat, zero_entry, one_entry by lra. lia. Qed.
Lemma alone d g : length g = d -> index_set d [g] = support g.
Proof. intro l. unfold index_set, sum. cbn [fold_right]. rewrite <- l, add_zero. reflexivity. Qed.
Lemma sum_length d K gs : Forall (sparse d K) gs -> length (sum d gs) = d.
Proof. intro F. apply length_sum. eapply Forall_impl; [|exact F]. unfold sparse; tauto. Qed.
Theorem printed_holds : printed.
Proof.
  intros d K K0 Kd. split.
  - intros x y (g & g' & gs & -> & -> & F). pose proof (Forall_inv F) as [l k]. pose proof (Forall_inv (Forall_inv_tail F)) as [l' k'].
    pose proof (sum_length d K gs (Forall_inv_tail (Forall_inv_tail F))) as ls. unfold index_set, sum in *. cbn [fold_right].
    pose proof (moves g g' (fold_right add (zero d) gs) ltac:(congruence) ltac:(congruence)). lia.
  - exists [head d K], [next d K]. pose proof (head_sparse d K ltac:(lia)) as [a _]. pose proof (next_sparse d K Kd) as [b _]. split.
    + exists (head d K), (next d K), []. repeat split; try reflexivity. repeat constructor; try apply head_sparse; try apply next_sparse; lia.
    + rewrite !alone by assumption. unfold head, next. rewrite !support_app, !support_repeat, zero_entry, one_entry by lra.
      replace (repeat false (d - K)) with (repeat false K ++ repeat false (d - 2 * K)) by (rewrite <- repeat_app; f_equal; lia).
      rewrite !distance_app, !distance_repeat by (rewrite !repeat_length; reflexivity). simpl. lia.
Qed.
Lemma added_bound d K x y : added d K x y -> (distance (index_set d x) (index_set d y) <= K)%nat.
Proof.
  intros (g & -> & F). pose proof (Forall_inv F) as [l k]. pose proof (sum_length d K y (Forall_inv_tail F)) as ls.
  unfold index_set, sum in *. cbn [fold_right]. set (s := fold_right add (zero d) y) in *.
  pose proof (moves g (zero (length s)) s ltac:(congruence) ltac:(apply length_zero)) as h. rewrite zero_add in h.
  assert (z : ones (support (zero (length s))) = 0%nat) by (unfold zero; rewrite support_repeat, ones_repeat, zero_entry; reflexivity). lia.
Qed.
(* d = 2, K = 1: one record moves the support of the sum in at most 1 place, not 2 *)
Theorem reading_is_false : ~ reading.
Proof. intro claim. destruct (claim 2%nat 1%nat ltac:(lia) ltac:(lia)) as [_ (x & y & n & e)]. pose proof (added_bound 2 1 x y n). lia. Qed.
Theorem correction_holds : correction.
Proof.
  split.
  - intros d K [K0 Kd]. split; [intros x y n; apply added_bound, n|]. exists [head d K], []. pose proof (head_sparse d K Kd) as [a b]. split.
    + exists (head d K). split; [reflexivity|]. repeat constructor; assumption.
    + rewrite alone by exact a. unfold index_set, sum. cbn [fold_right]. unfold head, zero.
      replace (repeat 0 d) with (repeat 0 K ++ repeat 0 (d - K)) by (rewrite <- repeat_app; f_equal; lia).
      rewrite !support_app, !support_repeat, zero_entry, one_entry by lra. rewrite distance_app, !distance_repeat by (rewrite !repeat_length; reflexivity). simpl. lia.
  - exists 2%nat, 1%nat, [[1; 0]; [0; 1]]. split.
    + repeat apply Forall_cons; try constructor; try reflexivity; unfold support, ones; cbn [map]; rewrite zero_entry, one_entry by lra; simpl; lia.
    + unfold index_set, support. cbv [sum fold_right add zip map zero repeat]. rewrite !one_entry by lra. unfold ones. simpl. lia.
Qed.
End a4_sensitivity.

(* gip.alg1: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Algorithm 1, lines 3 to 5.
   Get t as the 100k-th percentile of the elements |g_j|; I_j = 1 if |g_j| > t, else 0. Meant is top-k: K = k d entries are kept. *)
Module alg1.
Definition kept (t : R) (g : vec) : nat := length (filter (fun a => if Rlt_dec t (Rabs a) then true else false) g).
Definition at_most (t : R) (g : vec) : nat := length (filter (fun a => if Rle_dec (Rabs a) t then true else false) g).
(* t is a 100 (n/d)-th percentile: n of the d elements are at most t *)
Definition percentile (n : nat) (g : vec) (t : R) : Prop := at_most t g = n.
Definition printed : Prop := forall d K g t, (0 < K < d)%nat -> length g = d -> percentile K g t -> kept t g = K.
(* the 100(1 - k)-th *)
Definition correction : Prop := forall d K g t, (0 < K < d)%nat -> length g = d -> percentile (d - K) g t -> kept t g = K.

(* |g| = (1, 2, 3), k = 1/3: the percentile is 1, and two entries are larger *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 3%nat 1%nat [1; 2; 3] 1 ltac:(lia) eq_refl).
  assert (r : forall a, 0 <= a -> Rabs a = a) by (intros; apply Rabs_pos_eq; assumption).
  unfold percentile, at_most, kept in claim. cbn [filter] in claim. rewrite !r in claim by lra.
  destruct (Rle_dec 1 1), (Rle_dec 2 1), (Rle_dec 3 1), (Rlt_dec 1 1), (Rlt_dec 1 2), (Rlt_dec 1 3); try lra.
  simpl in claim. specialize (claim eq_refl). discriminate claim.
Qed.
Lemma all_entries t g : (at_most t g + kept t g = length g)%nat.
Proof.
  unfold at_most, kept. induction g as [|a g IH]; [reflexivity|]. cbn [filter].
  destruct (Rle_dec (Rabs a) t), (Rlt_dec t (Rabs a)); simpl; try lia; lra.
Qed.
Theorem correction_holds : correction.
Proof. intros d K g t l e p. pose proof (all_entries t g). unfold percentile in p. lia. Qed.
End alg1.

(* gip.beta_values: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix B.1 (and the text below Corollary 1).
   "We choose d in [10, 200] as the max group size is selected to be 256 and k in [0.1, 0.9]. [...] the smallest beta is 0.78 at (k, d) = (0.1, 10)." Clipping bound C = 1.
   Stated as printed is this value alone, where kd = 1 is an integer. The 0.9913 for WRN-16-4 is not: where kd is rounded, as at k = 0.08, d = 256, such values occur.
   Doubts: "We presented the value of log(beta) in the figure": 0.78 may be one of log(beta). `correction` is about whole kd, as the formula is. *)
Module beta_values.
(* beta of Corollary 1, K = kd; zeta = k + 2 a phi(a), a the quantile of eq. 15. Of a only a >= 0 and 1 - zeta > 0 is used:
   1 - zeta is the integral of x^2 phi(x) from -a to a (eq. 16). *)
Definition zeta (k a : R) : R := k + 2 * a / sqrt (2 * PI) * exp (- a ^ 2 / 2).
(* F(theta) = E[i], i = h / 2 the number of swapped pairs of the Mallows law around I0 *)
Definition weight (theta : R) (I0 I : list bool) : R := exp (- theta * INR (distance I I0)).
Definition swaps d K theta I0 : R :=
  over_masks d K (fun I => INR (distance I I0) / 2 * weight theta I0 I) / over_masks d K (weight theta I0).
Definition beta (C a theta : R) (d K : nat) (I0 : list bool) : R :=
  let k := share d K in
  C ^ 2 * (1 - k) * INR d / ((1 - k) * INR d * (1 - zeta k a) + zeta k a / k * swaps d K theta I0).
Definition printed : Prop := exists a theta I0, 0 <= theta /\ 0 <= a /\ zeta (share 10 1) a < 1 /\
  In I0 (masks 10 1) /\ beta 1 a theta 10 1 I0 = 0.78.
(* beta is at least C^2 *)
Definition correction : Prop := forall C d K a theta I0, 0 < C -> (0 < K < d)%nat -> 0 <= theta -> 0 <= a -> zeta (share d K) a < 1 ->
  In I0 (masks d K) -> C ^ 2 <= beta C a theta d K I0.

Definition indicator (I : list bool) : vec := map (fun b : bool => if b then 1 else 0) I.
Lemma distance_dot I I0 : length I = length I0 ->
  INR (distance I I0) = INR (ones I) + INR (ones I0) - 2 * dot (mask I (indicator I0)) (indicator I0).
Proof.
  revert I0; induction I as [|a I IH]; intros [|b I0] l; try discriminate; [unfold dot; simpl; ring|].
  specialize (IH I0 ltac:(simpl in l; lia)). unfold indicator, ones in *. cbn [distance map mask count_occ]. rewrite dot_cons.
  destruct a, b; cbn [Bool.eqb plus]; simpl bool_dec; cbn iota; rewrite ?S_INR; lra.
Qed.
Lemma dot_indicator I : dot (indicator I) (indicator I) = INR (ones I).
Proof. unfold indicator, ones. induction I as [|[] I IH]; simpl map; simpl count_occ; rewrite ?dot_cons, ?S_INR, ?IH; simpl; unfold dot; simpl; lra. Qed.
(* without dispersion the mean number of swaps is K (d - K) / d *)
Lemma mean_distance d K I0 : (0 < K < d)%nat -> In I0 (masks d K) ->
  avg (masks d K) (fun I => INR (distance I I0) / 2) = INR K * (INR d - INR K) / INR d.
Proof.
  intros [K0 Kd] i0. destruct (in_masks _ _ _ i0) as [l0 o0].
  rewrite (avg_ext _ _ (fun I => INR K + -1 * dot (mask I (indicator I0)) (indicator I0))).
  - rewrite avg_add, avg_constant, avg_scale by (apply masks_some; lia).
    rewrite masked_dot by (try lia; unfold indicator; rewrite map_length; exact l0). rewrite dot_indicator, o0. unfold share.
    assert (0 < INR d) by (apply lt_0_INR; lia). field. lra.
  - apply Forall_forall. intros I i. destruct (in_masks _ _ _ i) as [l o]. rewrite distance_dot by congruence. rewrite o, o0. field.
Qed.
Lemma chebyshev {A} (f g : A -> R) : (forall a b, (f a - f b) * (g a - g b) <= 0) -> forall l,
  INR (length l) * total (map (fun a => f a * g a) l) <= total (map f l) * total (map g l).
Proof.
  intros h l. induction l as [|a l IH]; [simpl; lra|]. cbn [map total fold_right length]. rewrite S_INR.
  assert (c : INR (length l) * (f a * g a) + total (map (fun b => f b * g b) l) <= f a * total (map g l) + g a * total (map f l)).
  { clear IH. induction l as [|b l IH]; [simpl; lra|]. cbn [map total fold_right length]. rewrite S_INR. specialize (h a b). unfold total in *. nra. }
  unfold total in *. nra.
Qed.
Lemma swaps_range d K theta I0 : (0 < K < d)%nat -> 0 <= theta -> In I0 (masks d K) ->
  0 <= swaps d K theta I0 <= INR K * (INR d - INR K) / INR d.
Proof.
  intros Kd t0 i0. unfold swaps. set (f := fun I => INR (distance I I0) / 2). set (w := weight theta I0).
  assert (W : 0 < over_masks d K w) by (apply over_masks_pos; [lia | intro; apply exp_pos]).
  assert (N : 0 < INR (length (masks d K))) by (apply (number_pos d K); lia). split.
  - apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat, W]. unfold over_masks.
    replace 0 with (total (map (fun _ : list bool => 0) (masks d K))) by (rewrite total_constant; ring).
    apply total_map_le, Forall_forall. intros I _. pose proof (pos_INR (distance I I0)). assert (0 < w I) by apply exp_pos.
    apply Rmult_le_pos; [unfold Rdiv; apply Rmult_le_pos; [apply pos_INR | lra] | lra].
  - rewrite <- (mean_distance d K I0 Kd i0). unfold avg. fold f. apply (Rmult_le_reg_r (over_masks d K w * INR (length (masks d K)))); [apply Rmult_lt_0_compat; assumption|].
    assert (c : forall a b, (f a - f b) * (w a - w b) <= 0).
    { intros a b. unfold f, w, weight. set (x := INR (distance a I0)). set (y := INR (distance b I0)).
      destruct (Rtotal_order x y) as [l|[->|l]]; [|lra|].
      - assert (exp (- theta * y) <= exp (- theta * x)) by (destruct (Req_dec theta 0) as [->|]; [right; f_equal; ring | left; apply exp_increasing; nra]). nra.
      - assert (exp (- theta * x) <= exp (- theta * y)) by (destruct (Req_dec theta 0) as [->|]; [right; f_equal; ring | left; apply exp_increasing; nra]). nra. }
    pose proof (chebyshev f w c (masks d K)) as h.
    change (over_masks d K (fun I => INR (distance I I0) / 2 * w I)) with (over_masks d K (fun I => f I * w I)).
    replace (over_masks d K (fun I => f I * w I) / over_masks d K w * (over_masks d K w * INR (length (masks d K))))
      with (INR (length (masks d K)) * over_masks d K (fun I => f I * w I)) by (field; lra).
    replace (total (map f (masks d K)) / INR (length (masks d K)) * (over_masks d K w * INR (length (masks d K))))
      with (total (map f (masks d K)) * over_masks d K w) by (field; lra). exact h.
Qed.
Theorem correction_holds : correction.
Proof.
  intros C d K a theta I0 C0 Kd t0 a0 z1 i0. unfold beta. set (k := share d K). set (z := zeta k a).
  pose proof (swaps_range d K theta I0 Kd t0 i0) as [F0 F1]. set (F := swaps d K theta I0) in *.
  assert (D0 : 0 < INR d) by (apply lt_0_INR; lia).
  assert (k0 : 0 < k) by (apply share_pos; lia). assert (k1 : k < 1) by (apply share_lt; lia).
  assert (zk : k <= z). { unfold z, zeta. assert (0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra). pose proof (exp_pos (- a ^ 2 / 2)).
    assert (0 <= 2 * a / sqrt (2 * PI)) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; assumption]). nra. }
  assert (z1' : z < 1) by exact z1.
  assert (Fk : F <= k * ((1 - k) * INR d)).
  { eapply Rle_trans; [exact F1|]. right. unfold k, share. field. lra. }
  set (m := (1 - k) * INR d) in *. assert (m0 : 0 < m) by (apply Rmult_lt_0_compat; lra).
  assert (q0 : 0 < z / k) by (apply Rdiv_lt_0_compat; lra).
  assert (up : z / k * F <= z * m). { apply Rle_trans with (z / k * (k * m)); [apply Rmult_le_compat_l; lra | right; field; lra]. }
  assert (low : 0 <= z / k * F) by (apply Rmult_le_pos; lra). assert (0 < m * (1 - z)) by (apply Rmult_lt_0_compat; lra).
  set (D := m * (1 - z) + z / k * F). assert (Dp : 0 < D) by (unfold D; lra). assert (Dm : D <= m) by (unfold D; lra).
  apply (Rmult_le_reg_r D); [exact Dp|]. replace (C ^ 2 * (1 - k) * INR d / D * D) with (C ^ 2 * m) by (unfold m; field; lra).
  apply Rmult_le_compat_l; [nra | exact Dm].
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (a & theta & I0 & t0 & a0 & z1 & i0 & e).
  pose proof (correction_holds 1 10%nat 1%nat a theta I0 Rlt_0_1 ltac:(lia) t0 a0 z1 i0) as le. rewrite e in le. lra.
Qed.
End beta_values.

(* gip.criterion: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: section 5, first paragraph, and the text below Corollary 1.
   "As gradient descent is taken in each iteration, we consider the less error included, the less the update deviates from the original descent direction, which
   leads to a smaller accumulated error in the end." Refuted is the reading as a criterion on the loss: where the error of the pruned update is the smaller one,
   its best step ends no higher. *)
Module criterion.
Import rf.mse_criterion.
(* Pruned: top-k, perturbed by the Mallows model around a top-k set I0; s = sigma C. The loss |v|^2 / 2 has the gradient g at g. *)
Definition largest (g : vec) (I : list bool) : Prop :=               (* no entry left out is larger than one kept *)
  forall i j, (i < length g)%nat -> (j < length g)%nat -> nth i I false = true -> nth j I false = false ->
  Rabs (entry g j) <= Rabs (entry g i).
Definition mallows (d K : nat) (theta : R) (I0 : list bool) (f : list bool -> R) : R :=
  over_masks d K (fun I => exp (- theta * INR (distance I I0)) * f I) / over_masks d K (fun I => exp (- theta * INR (distance I I0))).
Definition pruned {O} (n : nat -> O -> R) d s (g : vec) (I : list bool) (o : O) : vec := mask I (add g (scale s (noise n d o))).
Definition noisy {O} (n : nat -> O -> R) d s (g : vec) (o : O) : vec := add g (scale s (noise n d o)).
(* where the error of the pruned update is the smaller one, some step size of it ends no higher than any of DP-SGD *)
Definition reading : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d K theta s g I0, (0 < K < d)%nat -> 0 <= theta -> 0 < s -> length g = d -> In I0 (masks d K) -> largest g I0 ->
  mallows d K theta I0 (fun I => ex e (fun o => error g (pruned n d s g I o))) < ex e (fun o => error g (noisy n d s g o)) ->
  forall c, 0 < c -> exists c', 0 < c' /\
  mallows d K theta I0 (fun I => ex e (fun o => after c' g (pruned n d s g I o))) <= ex e (fun o => after c g (noisy n d s g o)).

(* g = (1, 1), s = 2, one of two entries kept, theta = 0: the error falls from 8 to 5, the best expected decrease from 1/5 to 1/10 *)
Section Numbers.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (nz : unit_noise e n).
Ltac shape f c a b p q := rewrite (ex_ext e _ (fun o => c + a * n 0%nat o + b * n 1%nat o + p * (n 0%nat o * n 0%nat o)
    + q * (n 1%nat o * n 1%nat o) + 0 * (n 0%nat o * n 1%nat o)));
  [rewrite (ex_two O e n nz); try lra | intro o; unfold f, pruned, noisy, loss, noise, square, dot; simpl; lra].
Lemma error_noisy : ex e (fun o => error [1; 1] (noisy n 2 2 [1; 1] o)) = 8.
Proof. shape error 0 0 0 4 4. Qed.
Lemma error_pruned I : In I (masks 2 1) -> ex e (fun o => error [1; 1] (pruned n 2 2 [1; 1] I o)) = 5.
Proof. simpl. intros [<-|[<-|[]]]; [shape error 1 0 0 4 0 | shape error 1 0 0 0 4]. Qed.
Lemma after_noisy c : ex e (fun o => after c [1; 1] (noisy n 2 2 [1; 1] o)) = (1 - c) ^ 2 + 4 * c ^ 2.
Proof. shape after ((1 - c) ^ 2) (-2 * c * (1 - c)) (-2 * c * (1 - c)) (2 * c ^ 2) (2 * c ^ 2). Qed.
Lemma after_pruned c I : In I (masks 2 1) -> ex e (fun o => after c [1; 1] (pruned n 2 2 [1; 1] I o)) = ((1 - c) ^ 2 + 1) / 2 + 2 * c ^ 2.
Proof. simpl. intros [<-|[<-|[]]]; [shape after (((1 - c) ^ 2 + 1) / 2) (-2 * c * (1 - c)) 0 (2 * c ^ 2) 0
  | shape after (((1 - c) ^ 2 + 1) / 2) 0 (-2 * c * (1 - c)) 0 (2 * c ^ 2)]. Qed.
End Numbers.
Lemma mallows_same theta I0 f c : (forall I, In I (masks 2 1) -> f I = c) -> mallows 2 1 theta I0 f = c.
Proof.
  intro h. unfold mallows, over_masks. cbn [masks map app total fold_right]. rewrite !h by (simpl; auto).
  set (a := exp _). set (b := exp _). assert (0 < a) by apply exp_pos. assert (0 < b) by apply exp_pos. field. lra.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intros (O & e & n & nz & claim).
  specialize (claim 2%nat 1%nat 0 2 [1; 1] [true; false] ltac:(lia) ltac:(lra) ltac:(lra) eq_refl ltac:(simpl; auto)).
  rewrite (mallows_same _ _ _ 5) in claim by apply (error_pruned O e n nz). rewrite (error_noisy O e n nz) in claim.
  destruct (fun l => claim l ltac:(lra) (1 / 5) ltac:(lra)) as (c & c0 & le).
  { intros i j li lj _ _. simpl in li, lj. destruct i as [|[|i]], j as [|[|j]]; try lia; right; reflexivity. }
  rewrite (mallows_same _ _ _ (((1 - c) ^ 2 + 1) / 2 + 2 * c ^ 2)) in le by (intros; apply (after_pruned O e n nz); assumption).
  rewrite (after_noisy O e n nz) in le. nra.
Qed.
End criterion.

(* gip.eq18: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.3, eq. 18.
   C_0(I) is the set of zeros and C_1(I) the set of ones of an index set I in S_k: |C_0(I)| = kd, |C_1(I)| = (1 - k)d. *)
Module eq18.
Definition zeros (m : list bool) : nat := count_occ bool_dec m false.
Definition printed : Prop := forall d K I, (K <= d)%nat -> In I (masks d K) -> zeros I = K /\ ones I = (d - K)%nat.
Definition correction : Prop := forall d K I, (K <= d)%nat -> In I (masks d K) -> zeros I = (d - K)%nat /\ ones I = K.

(* d = 3, K = 1: 2 zeros, printed 1 *)
Theorem printed_is_false : ~ printed.
Proof. intro claim. destruct (claim 3%nat 1%nat [true; false; false] ltac:(lia) ltac:(simpl; auto)) as [h _]. discriminate h. Qed.
Lemma together m : (zeros m + ones m = length m)%nat.
Proof. unfold zeros, ones. induction m as [|[] m IH]; simpl in *; lia. Qed.
Theorem correction_holds : correction.
Proof. intros d K I l i. destruct (in_masks _ _ _ i) as [a b]. pose proof (together I). split; lia. Qed.
End eq18.

(* gip.eq5: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: eq. 5.
   MSE = E|g + Z|^2 = E|g (.) I - g|^2 + E|Z (.) I|^2. *)
Module eq5.
(* Z ~ N(0, s^2 I), s = sigma C *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s g I, length g = d -> length I = d -> 0 < s ->
  ex e (fun o => square (add g (scale s (noise n d o))))
  = square (sub (mask I g) g) + ex e (fun o => square (mask I (scale s (noise n d o)))).
(* for every outcome Z *)
Definition correction : Prop := forall d g Z I, length g = d -> length Z = d -> length I = d ->
  square (sub (mask I (add g Z)) g) = square (sub (mask I g) g) + square (mask I Z).

(* g = (3, -2, 1), its largest entry kept, s = 1: 17 on the left, 6 on the right *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & claim). specialize (claim 3%nat 1 [3; -2; 1] [true; false; false] eq_refl eq_refl ltac:(lra)).
  assert (a : ex e (fun o => square (add [3; -2; 1] (scale 1 (noise n 3 o)))) = square [3; -2; 1] + 1 ^ 2 * INR (ones [true; true; true])).
  { rewrite <- (ex_noisy O e n nz 3 1 [true; true; true] [3; -2; 1] eq_refl eq_refl). apply ex_ext. intro o. reflexivity. }
  assert (b : ex e (fun o => square (mask [true; false; false] (scale 1 (noise n 3 o)))) = square [0; 0; 0] + 1 ^ 2 * INR (ones [true; false; false])).
  { rewrite <- (ex_noisy O e n nz 3 1 [true; false; false] [0; 0; 0] eq_refl eq_refl). apply ex_ext. intro o. unfold square, dot, noise; simpl; ring. }
  rewrite a, b in claim. unfold square, dot in claim. simpl in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d g Z I eg eZ eI. assert (l : length I = length g) by congruence. assert (l' : length Z = length g) by congruence.
  clear eg eZ eI. revert Z I l l'. induction g as [|a g IH]; intros [|z Z] [|b I] l l'; try discriminate; [unfold square, dot; simpl; ring|].
  injection l as l. injection l' as l'. specialize (IH Z I l l'). unfold add, sub in *. cbn [zip mask]. rewrite !square_cons.
  destruct b; lra.
Qed.
End eq5.

(* gip.eq6: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: eq. 6.
   E|Z (.) I|^2 = sigma^2 C^2 k d for an index set I with K = k d ones and Z ~ N(0, sigma^2 C^2). *)
Module eq6.
Definition printed : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K s I, In I (masks d K) -> ex e (fun o => square (mask I (scale s (noise n d o)))) = s ^ 2 * INR K.

Theorem printed_holds : printed.
Proof.
  intros O e n nz d K s I i. destruct (in_masks _ _ _ i) as [ei oi].
  pose proof (ex_noisy O e n nz d s I (zero d) ei (length_zero d)) as h. rewrite oi in h. unfold square at 2 in h. rewrite dot_zero in h.
  rewrite Rplus_0_l in h. rewrite <- h. apply ex_ext. intro o.
  rewrite square_add; [|rewrite length_zero, length_mask; rewrite length_scale, length_noise; congruence].
  rewrite dot_zero. unfold square at 2. rewrite dot_zero. ring.
Qed.
End eq6.

(* gip.mse_r: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Proposition 2 (eq. 7, 12, 13).
   MSE_r = E|g - g (.) I_r|^2 = (d - kd) sigma_g^2 for a uniformly random index set I_r with K = kd ones, under Assumption 1. *)
Module mse_r.
Definition printed : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K s, (0 < K <= d)%nat ->
  avg (masks d K) (fun I => ex e (fun o => let g := scale s (noise n d o) in square (sub g (mask I g)))) = (INR d - INR K) * s ^ 2.

Lemma out I g : length I = length g -> sub g (mask I g) = mask (map negb I) g.
Proof. revert g; induction I as [|b I IH]; intros [|a g] l; try discriminate; [reflexivity|]. unfold sub in *. simpl. rewrite IH by (simpl in l; lia).
  f_equal. destruct b; simpl; lra. Qed.
Lemma ones_out I : INR (ones (map negb I)) = INR (length I) - INR (ones I).
Proof. unfold ones. induction I as [|[] I IH]; simpl map; simpl count_occ; cbn [length]; rewrite ?S_INR, ?IH; simpl; lra. Qed.
Theorem printed_holds : printed.
Proof.
  intros O e n nz d K s [K0 Kd]. apply avg_same; [apply masks_some; exact Kd|]. intros I i. destruct (in_masks _ _ _ i) as [eI oI].
  pose proof (ex_noisy O e n nz d s (map negb I) (zero d) ltac:(rewrite map_length; exact eI) (length_zero d)) as h.
  rewrite ones_out, eI, oI in h. unfold square at 2 in h. rewrite dot_zero in h.
  rewrite (ex_ext e _ (fun o => square (add (zero d) (mask (map negb I) (scale s (noise n d o)))))); [rewrite h; ring|].
  intro o. cbv zeta. rewrite out by (rewrite length_scale, length_noise; exact eI).
  rewrite square_add, dot_zero by (rewrite length_zero, length_mask; rewrite length_scale, length_noise; rewrite ?map_length; congruence).
  unfold square at 2. rewrite dot_zero. ring.
Qed.
End mse_r.

(* gip.norm: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: section 5, text before eq. 5.
   Under Assumption 1 (g ~ N(0, sigma_g^2)) we have E|g|_2 = d sigma_g. *)
Module norm.
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s, (0 < d)%nat -> 0 < s -> has e (fun o => norm (scale s (noise n d o))) /\
  ex e (fun o => norm (scale s (noise n d o))) = INR d * s.
(* at most s sqrt d *)
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d s, (0 < d)%nat -> 0 < s -> has e (fun o => norm (scale s (noise n d o))) ->
  ex e (fun o => norm (scale s (noise n d o))) <= s * sqrt (INR d).

Theorem correction_holds : correction.
Proof.
  intros O e n nz d s d0 s0 h. set (X := fun o => norm (scale s (noise n d o))) in *. set (mu := ex e X).
  pose proof (ex_noisy O e n nz d s (repeat true d) (zero d) (repeat_length _ _) (length_zero d)) as q.
  pose proof (has_noisy O e n nz d s (repeat true d) (zero d) (repeat_length _ _) (length_zero d)) as q'.
  assert (eq : forall o, square (add (zero d) (mask (repeat true d) (scale s (noise n d o)))) = X o * X o).
  { intro o. unfold X. rewrite norm_norm. replace d with (length (scale s (noise n d o))) at 2 by (rewrite length_scale; apply length_noise).
    rewrite mask_all, square_add, dot_zero by (rewrite length_zero, length_scale, length_noise; reflexivity).
    unfold square at 1. rewrite dot_zero. ring. }
  rewrite (ex_ext e _ _ eq) in q. apply (has_ext e _ _ eq) in q'. rewrite ones_all in q. unfold square in q. rewrite dot_zero in q.
  assert (var : 0 <= ex e (fun o => 1 * (X o * X o) + 1 * (-2 * mu * X o + mu * mu))).
  { apply ex_positive; [|intro o; pose proof (Rle_0_sqr (X o - mu)) as z; unfold Rsqr in z; lra].
    apply has_linear; [exact q' | apply has_add; [apply has_scale, h | apply has_constant]]. }
  rewrite (ex_linear e 1 1 _ _ q' (has_add e _ _ (has_scale e _ _ h) (has_constant e _))) in var.
  rewrite (ex_add e _ _ (has_scale e (-2 * mu) _ h) (has_constant e (mu * mu))), (ex_scale e _ _ h), ex_constant, q in var. fold mu in var.
  apply Rsqr_incr_0_var; [|apply Rmult_le_pos; [lra | apply sqrt_pos]]. unfold Rsqr.
  replace (s * sqrt (INR d) * (s * sqrt (INR d))) with (s ^ 2 * (sqrt (INR d) * sqrt (INR d))) by ring.
  rewrite sqrt_sqrt by apply pos_INR. fold mu. lra.
Qed.
(* d = 4: at most 2 s, printed 4 s *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & claim). destruct (claim 4%nat 1 ltac:(lia) ltac:(lra)) as [h q].
  pose proof (correction_holds O e n nz 4%nat 1 ltac:(lia) ltac:(lra) h) as le. rewrite q in le.
  replace (INR 4) with (2 * 2) in le by (simpl; ring). rewrite sqrt_square in le by lra. lra.
Qed.
End norm.
